"""MultiMNIST: two overlapping digits in one image; recognising each is a task.

Made from the files of MNIST or of Fashion-MNIST.
"""

from torchsims.data.digits._multimnist import CHANNELS, MultiMNIST

__all__ = ["CHANNELS", "MultiMNIST"]
