# make run    set everything up and run the demonstration
# make test   set everything up and run lint, type checks and tests
# make bench  set everything up and measure; writes bench/RESULTS.md

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run test bench clean

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch -e '.[dev,experiments,tables]'
	touch $@

run: $(VENV)/.installed
	$(BIN)/python examples/units.py

test: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile

bench: $(VENV)/.installed
	$(BIN)/python bench/steps.py

clean:
	rm -rf $(VENV) build dist
