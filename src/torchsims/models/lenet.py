"""LeNet with one linear head per task."""

from collections.abc import Mapping
from typing import final

from torch import Tensor, nn

from torchsims.models.outputs import check_outputs

KERNEL = 5


@final
class LeNet(nn.Module):
    """A small convolutional network that all tasks share up to its last hidden layer, and one linear head per task.

    Two convolutions of 5 x 5, each followed by a ReLU and a 2 x 2 max-pooling, and a fully connected layer (LeCun et
    al., 1998). The widths are those of Lin et al. (Pareto Multi-Task Learning, NeurIPS 2019), whose first convolution
    is 9 x 9.

    Args:
        outputs: outputs of the network, by task.
        side: height and width of the images.
        channels: channels of the first convolution; the second has twice as many.
        hidden: width of the shared fully connected layer.

    Example:
        >>> import torch
        >>> model = LeNet({"left": 10, "right": 10}, side=36)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(4, 1, 36, 36)).items()}
        {'left': (4, 10), 'right': (4, 10)}
    """

    def __init__(self, outputs: Mapping[str, int], side: int, channels: int = 10, hidden: int = 50) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        for name, value in (("channels", channels), ("hidden", hidden)):
            if not value >= 1:
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
        left = ((side - KERNEL + 1) // 2 - KERNEL + 1) // 2  # side of the features, after both convolutions
        if not left >= 1:
            raise ValueError(f"Parameter `side` should be at least 16. Found `side = {side}`.")
        self.encoder = nn.Sequential(
            nn.Conv2d(1, channels, KERNEL),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, KERNEL),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * channels * left**2, hidden),
            nn.ReLU(),
        )
        self.heads = nn.ModuleList([nn.Linear(hidden, number) for number in outputs.values()])

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return the outputs of every task, `batch x output`, for images `batch x 1 x side x side`."""
        features = self.encoder(image)
        return {task: head(features) for task, head in zip(self.tasks, self.heads, strict=True)}
