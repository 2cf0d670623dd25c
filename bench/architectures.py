"""What a step of every architecture costs at the paper's input: python bench/architectures.py [--peak 156] [--measure].

Floating-point operations and kept activations of one forward and one backward pass of one image are counted on the meta
device: nothing is computed. With --measure, a pass on a smaller image is timed on one thread, and scaled by the counted
operations. What 100 epochs need on GPUs is an estimate from two stated inputs: the peak throughput of a GPU, and the
share of it that training reaches.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from torchsims.models import Architecture
from torchsims.workloads.dense import DenseWorkload

CHANNELS = {"seg": 13, "depth": 1, "normals": 3}
IMAGES, EPOCHS = 795, 100  # of NYUv2
SMALL = (96, 128)
# Architecture, its input, the input on which time is measured.
CASES: list[tuple[str, tuple[int, int], tuple[int, int]]] = [
    ("hps:encoder=resnet50", (288, 384), SMALL),
    ("stl:encoder=resnet50", (288, 384), SMALL),
    ("crossstitch:encoder=resnet50", (288, 384), SMALL),
    ("nddr:encoder=resnet50", (288, 384), SMALL),
    ("mtan:encoder=resnet50", (288, 384), SMALL),
    ("densemtl:encoder=resnet101", (288, 384), SMALL),
    ("vtagml", (288, 384), (224, 224)),
    ("swinmtl", (288, 384), (256, 256)),
    ("sam2:encoder=tiny:rank=16", (1024, 1024), (256, 256)),
    ("sam2:encoder=tiny:rank=16:adapter=multilora", (1024, 1024), (256, 256)),
    ("sam2:encoder=tiny:rank=16:adapter=mtsam", (1024, 1024), (256, 256)),
    ("sam2:encoder=large:rank=32", (1024, 1024), (256, 256)),
]


def make(text: str, size: tuple[int, int]) -> nn.Module:
    if text.startswith("sam2"):
        text += f":size={size[0]}"
    return Architecture.parse(text, DenseWorkload.architectures).build(CHANNELS, {})


def run(model: nn.Module, image: Tensor) -> None:
    """Run one forward and one backward pass."""
    torch.stack([out.square().mean() for out in model(image).values()]).sum().backward()  # type: ignore[no-untyped-call]


@contextmanager
def kept(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collect one tensor per storage that autograd keeps, parameters left out."""
    found: list[Tensor] = []
    known = {p.untyped_storage()._cdata for p in model.parameters()}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()._cdata
        if storage not in known:
            known.add(storage)
            found.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield found


def count(text: str, size: tuple[int, int]) -> tuple[float, float, int, int]:
    """Return operations, bytes of activations, trainable and all parameters, for one image."""
    with torch.device("meta"):
        model = make(text, size).train()
        with FlopCounterMode(display=False) as counter, kept(model) as tensors:
            run(model, torch.empty(1, 3, *size))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    size_in_bytes = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    return counter.get_total_flops(), size_in_bytes, trained, sum(p.numel() for p in model.parameters())


def measure(text: str, size: tuple[int, int]) -> float:
    """Return processor seconds of one forward and one backward pass of one image; the second of two."""
    torch.manual_seed(0)
    model, image, seconds = make(text, size), torch.rand(1, 3, *size), 0.0
    for _ in range(2):
        start = time.process_time()
        run(model, image)
        seconds = time.process_time() - start
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Count and measure a step of every architecture.")
    parser.add_argument("--peak", type=float, default=156.0, help="peak of a GPU in TFLOPS; 156 is an A100 with TF32")
    parser.add_argument("--utilisation", type=float, default=0.3, help="share of the peak that training reaches")
    parser.add_argument("--scaling", type=float, default=0.9, help="efficiency of four GPUs")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--measure", action="store_true", help="time a pass on a smaller image")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | input | parameters, million (trained) | TFLOP an image | GB | s | 1 GPU, h | 4 GPUs, h |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for text, size, small in CASES:
        flops, activations, trained, total = count(text, size)
        # Weights, and for the trained ones gradients and two tensors of Adam.
        memory = (4 * (total + 3 * trained) + options.batch * activations) / 1e9
        seconds = f"{measure(text, small) * flops / count(text, small)[0]:.0f}" if options.measure else ""
        hours = IMAGES * EPOCHS * flops / (options.peak * 1e12 * options.utilisation) / 3600
        print(
            f"| `{text}` | {size[0]} x {size[1]} | {total / 1e6:.1f} ({trained / 1e6:.1f}) | {flops / 1e12:.2f} "
            f"| {memory:.1f} | {seconds} | {hours:.1f} | {hours / 4 / options.scaling:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
