"""``python -m torchsims`` is the command line."""

from torchsims.cli import main

if __name__ == "__main__":
    main()
