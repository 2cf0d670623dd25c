"""The extra `huggingface`: its packages, and all names of `torchsims.huggingface`."""

from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Import everything that is public."""
    for name in ("accelerate", "transformers"):
        import_module(name)
    if find_spec("torchsims.huggingface"):
        door = import_module("torchsims.huggingface")
        for name in door.__all__:
            getattr(door, name)


if __name__ == "__main__":
    main()
