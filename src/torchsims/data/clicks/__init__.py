"""Ali-CCP: impressions, clicks and purchases. Raw files, their usual preprocessed form, and a generator.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from torchsims.data.clicks import convert, generate_clicks, open_log, write_raw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for seed, split in enumerate(("train", "test")):
    ...         write_raw(Path(folder), split, generate_clicks(500, seed))
    ...     log = open_log(convert(folder))
    >>> {split: len(part) for split, part in log.splits.items()}
    {'train': 500, 'test': 500}

Reference:
    Ma, Zhao, Huang, Wang, Hu, Zhu and Gai, Entire Space Multi-Task Model: An Effective Approach for Estimating
    Post-Click Conversion Rate, SIGIR 2018.
"""

from torchsims.data.clicks._convert import convert
from torchsims.data.clicks._generator import generate_clicks
from torchsims.data.clicks._log import ClickLog, Clicks, open_log
from torchsims.data.clicks._raw import write_raw

__all__ = ["ClickLog", "Clicks", "convert", "generate_clicks", "open_log", "write_raw"]
