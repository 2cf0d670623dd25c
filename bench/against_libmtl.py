"""Forward and backward passes of MTAN and Cross-Stitch beside LibMTL's, and of NDDR beside one written by hand.

    PYTHONPATH=tests python bench/against_libmtl.py

The same ResNet, weights and images on both sides, without heads, one thread; rounds alternate, and the ratio is that of
the fastest rounds in processor time. LibMTL is imported as `tests/helpers/libmtl.py` says.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from helpers.libmtl import OUTPUTS, Last, config, import_libmtl, make_cross_stitch, make_mtan
from torchsims.models import NDDR

ROUNDS = 7
IMAGES = torch.rand(2, 3, 96, 128, generator=torch.Generator().manual_seed(0))


class ByHand(nn.Module):
    """NDDR as its paper writes it: one convolution, norm and ReLU per task and place."""

    def __init__(self, ours: NDDR) -> None:
        super().__init__()
        self.encoders = ours.encoders
        tasks = len(ours.tasks)
        self.fusions = nn.ModuleList()
        places: list[Any] = list(ours.fusions)
        for channels in (ours.stem_channels, *ours.channels):
            layers = [
                nn.Sequential(nn.Conv2d(tasks * channels, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
                for _ in range(tasks)
            ]
            blocks = places[len(self.fusions)][0].weight.chunk(tasks)
            for layer, block in zip(layers, blocks, strict=True):
                layer.get_parameter("0.weight").data.copy_(block)
            self.fusions.append(nn.ModuleList(layers))

    def forward(self, image: Tensor) -> Sequence[Tensor]:
        columns: list[Any] = list(self.encoders)
        places: list[Any] = list(self.fusions)
        features = [column.pool(column.run_stem(image)) for column in columns]
        for place, layers in enumerate(places):
            if place:
                features = [c.stages[place - 1](x) for c, x in zip(columns, features, strict=True)]
            joined = torch.cat(features, dim=1)
            features = [layer(joined) for layer in layers]
        return features


def seconds(model: nn.Module, image: Tensor) -> float:
    model.zero_grad()
    start = time.process_time()
    found = model(image)
    outs = found.values() if isinstance(found, dict) else found
    torch.stack([out.square().mean() for out in outs]).sum().backward()  # type: ignore[no-untyped-call]
    return time.process_time() - start


def ratio(theirs: nn.Module, ours: nn.Module, encoder: Any) -> tuple[float, float]:
    """Return our fastest time, and its ratio to the other one."""
    colours = (IMAGES - encoder.mean) / encoder.std
    times: dict[str, list[float]] = {"theirs": [], "ours": []}
    by_hand = isinstance(theirs, ByHand)  # normalises the colours itself
    for _ in range(ROUNDS):
        times["theirs"].append(seconds(theirs, IMAGES if by_hand else colours))
        times["ours"].append(seconds(ours, IMAGES))
    return min(times["ours"]), min(times["ours"]) / min(times["theirs"])


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    libmtl = import_libmtl()
    nddr = NDDR(OUTPUTS, encoder=config("basic"), norm="batch")
    nddr.heads = nn.ModuleList([Last() for _ in OUTPUTS])
    by_hand = ByHand(nddr)
    for one, other in zip(nddr(IMAGES).values(), by_hand(IMAGES), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    makers: dict[str, Callable[[], tuple[nn.Module, nn.Module, Any]]] = {
        "MTAN, to LibMTL's": lambda: (*(pair := make_mtan(*libmtl)), pair[1].encoder),
        "Cross-Stitch, to LibMTL's": lambda: (*(pair := make_cross_stitch(*libmtl)), pair[1].encoders[0]),
        "NDDR, to one written by hand": lambda: (by_hand, nddr, nddr.encoders[0]),
    }
    print("| forward + backward | seconds | ratio |\n|---|---:|---:|")
    for name, make in makers.items():
        own, times = ratio(*make())
        print(f"| {name} | {own:.2f} | {times:.2f} |")


if __name__ == "__main__":
    main()
