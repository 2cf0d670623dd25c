"""Data sets for several tasks; they know no method."""

from torchsims.data.scenes import Scenes, back_project

__all__ = ["Scenes", "back_project"]
