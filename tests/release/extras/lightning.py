"""The extra `lightning`: its packages, and all names of `torchsims.lightning`."""

from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Import everything that is public."""
    for name in ("lightning",):
        import_module(name)
    if find_spec("torchsims.lightning"):
        door = import_module("torchsims.lightning")
        for name in door.__all__:
            getattr(door, name)


if __name__ == "__main__":
    main()
