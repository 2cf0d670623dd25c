"""The extra `vision`: an encoder of transformers with one head per task."""

import torch

from torchsims.models import HPS


def main() -> None:
    """Run a network without memory for its weights."""
    with torch.device("meta"):
        model = HPS({"seg": 8, "depth": 1}, encoder="resnet18")
        out = model(torch.empty(2, 3, 64, 64))
    assert out["seg"].shape == (2, 8, 64, 64)


if __name__ == "__main__":
    main()
