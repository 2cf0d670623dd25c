"""The extra `ray`: its package, and the driver of a cluster that is elsewhere."""

from importlib import import_module


def main() -> None:
    """Import both."""
    for name in ("ray", "ray.util.client"):
        import_module(name)


if __name__ == "__main__":
    main()
