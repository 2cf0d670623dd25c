"""The extra `experiments`: the command line trains a model and writes its page."""

import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Ask for help, and train for one epoch."""
    torchsims = str(Path(sys.executable).parent / "torchsims")
    subprocess.run([torchsims, "--help"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        data = ["--preset", "small", "--data", "scenes:images=8:resolution=16", "--epochs", "1"]
        subprocess.run([torchsims, "train", *data, "--out", str(run)], check=True, stdout=subprocess.DEVNULL)
        assert "<html" in (run / "report.html").read_text()
    from torchsims.metrics import hypervolume  # by moocore

    assert hypervolume([[1.0, 2.0], [2.0, 1.0]], reference=[3.0, 3.0]) == 3.0


if __name__ == "__main__":
    main()
