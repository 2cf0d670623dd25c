# make run    set everything up, train five methods with and without a rescaled loss, and write a page with the results
# make test   set everything up and run lint, type checks and tests
# make docs   set everything up and build the documentation in build/site; warnings are errors, and nothing is downloaded
# make docs-test  build the documentation and look at it in a browser
# make dist   set everything up and build the source distribution and the wheel, in dist/
# make test-dist      install what make dist builds where there is nothing else, and use it and every extra by itself
# make test-versions  run the core tests on the oldest torch, on every newer Python that is installed and on the newest versions
# make soak   set everything up and look for cases that break a promise, for ten minutes; HOURS=8 SEED=1 for longer and others
# make bench  set everything up and measure, for about six minutes; writes bench/RESULTS.md and bench/AGGREGATED.md
# make bench-quick    measure for some seconds; an error if a step takes 1.5 times as long as usual, beside one by hand

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SITE := build/site

.PHONY: run test docs docs-test dist test-dist test-versions soak bench bench-quick clean

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch -e '.[dev,docs,experiments,gradient,huggingface,lightning,ray,sweeps,tables,vision]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt LibMTL  # would install torchvision, which breaks here
	touch $@

run: $(VENV)/.installed
	$(BIN)/torchsims compare --preset small --resume --out runs/demo/plain
	$(BIN)/torchsims compare --preset small --rescale depth=100 --resume --out runs/demo/rescaled
	rm -rf runs/demo/page
	$(BIN)/torchsims report runs/demo/plain runs/demo/rescaled --out runs/demo/page

test: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -b html -W --keep-going -q -j 2 -d build/doctrees docs $(SITE)

docs-test: docs
	TORCHSIMS_SITE=$(abspath $(SITE)) $(BIN)/python -m pytest tests/docs

dist: $(VENV)/.installed
	rm -rf dist
	$(BIN)/python -m build

test-dist: dist
	PYTHONPATH=tests $(BIN)/python -m release.dist

test-versions: $(VENV)/.installed
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m release.versions $(CASES)

soak: $(VENV)/.installed
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m soak $(if $(HOURS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED))

# Without these, glibc gives memory back to the system in some steps and not in others, and page faults are measured.
bench: export MALLOC_MMAP_THRESHOLD_ = 2000000000
bench: export MALLOC_TRIM_THRESHOLD_ = 8000000000
bench: export MALLOC_TOP_PAD_ = 268435456
bench: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python bench/steps.py
	OMP_NUM_THREADS=1 $(BIN)/python bench/aggregated.py

bench-quick: $(VENV)/.installed
	$(BIN)/python bench/operators.py --quick

clean:
	rm -rf $(VENV) build dist
