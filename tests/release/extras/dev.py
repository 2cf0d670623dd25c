"""The extra `dev`: everything that runs the tests, beside the other extras."""

from importlib import import_module


def main() -> None:
    """Import the tools."""
    for name in ("build", "hypothesis", "mypy", "pandas", "pytest", "pytest_timeout", "twine", "xdist", "yaml"):
        import_module(name)


if __name__ == "__main__":
    main()
