"""``python -m torchsims`` is the command line."""

import sys

from torchsims._extras import needs


def main() -> None:
    """Run the command line; without the packages it needs, say what to install."""
    try:
        with needs("experiments"):
            from torchsims.cli import main as run
    except ImportError as error:
        sys.exit(f"torchsims: {error}")
    run()


if __name__ == "__main__":
    main()
