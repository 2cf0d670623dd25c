"""The page of a report in a browser: on a phone and on a desk, by day and by night."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from helpers.finished_runs import finished_runs
from torchsims.reporting import Report, runs_table, write_report
from torchsims.reporting._bars import delta_bars
from torchsims.reporting._curves import training_curves
from torchsims.reporting._pictures import predictions
from torchsims.reporting._runs import run_columns, summary_table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LABELS = ["EW", "EW, depth x 100", "A method with quite a long name, normals x 0.001", *(f"M{i}" for i in range(9))]
HEIGHT = 900
NARROWEST = 500  # a window cannot be narrower; a frame in it can
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]
HOST = """<!doctype html><title>host</title>
<style>html {{ color-scheme: light dark; }} body {{ margin: 0; }} iframe {{ border: 0; display: block; }}</style>
<iframe width="{width}" height="{height}" srcdoc="{page}"></iframe><pre id="measures"></pre>
<script>
addEventListener("load", () => {{
  const view = document.querySelector("iframe").contentWindow, page = view.document;
  const table = page.querySelector(".wide"), cell = table && table.querySelector("tbody th");
  const left = () => cell && cell.getBoundingClientRect().left;
  const before = left();
  if (table) table.scrollLeft = 150;
  document.getElementById("measures").textContent = JSON.stringify({{
    viewport: view.innerWidth,
    width: page.documentElement.scrollWidth,
    images: [...page.images].map(image => image.naturalWidth),
    table: table && [table.clientWidth, table.scrollWidth, table.scrollLeft],
    cell: [before, left()],
    folded: [...page.querySelectorAll("details")].map(fold => !fold.open),
  }});
}});
</script>
"""


@dataclass(frozen=True)
class Shown:
    measures: dict[str, Any]
    console: list[str]
    corner: float  # how bright, from 0 to 1


@pytest.fixture(scope="module")
def browser() -> str:
    if CHROMIUM is None:
        assert not os.environ.get("TORCHSIMS_CI"), "Continuous integration should have Chromium. Found none."
        pytest.skip("Chromium is not installed.")
    return CHROMIUM


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    runs = finished_runs(LABELS, seeds=2)
    report = Report(
        title="Twelve methods on rendered scenes",
        command="torchsims compare --data scenes --methods " + ",".join(LABELS) + " --seeds 2 --out runs/compare",
        settings={"labels": LABELS, "path": "/a/long/path" * 20},
        rows=summary_table(runs, {"Delta_b": {label: [0.1, 0.2] for label in LABELS}}),
        details={"Every run": runs_table(runs)},
        figures={
            "training": training_curves(runs),
            "predictions": predictions(runs),
            "delta": delta_bars({label: [0.1, 0.2] for label in LABELS}),
        },
        notes=["A note with a word that is far too long for any phone: " + "x" * 200],
        columns=run_columns(runs, {"Delta_b": True}),
    )
    out = tmp_path_factory.mktemp("report") / "out"
    write_report(report, out, 1.0)
    return (out / "report.html").read_text(encoding="utf-8")


def _show(browser: str, page: str, folder: Path, width: int, dark: bool) -> Shown:
    host, picture = folder / "host.html", folder / "picture.png"
    host.write_text(HOST.format(width=width, height=HEIGHT, page=escape(page)), encoding="utf-8")
    options = [
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={max(width, NARROWEST)},{HEIGHT}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--screenshot={picture}",
        "--dump-dom",
    ]
    done = subprocess.run(
        [browser, *FLAGS, *options, host.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    found = re.search(r'<pre id="measures">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, done.stderr
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    corner = float(np.asarray(imread(picture))[3, 3, :3].mean())
    return Shown(json.loads(unescape(found.group(1))), console, corner)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desk"])
def test_the_page_fits_shows_its_figures_and_follows_the_light(
    browser: str, page: str, tmp_path: Path, width: int, dark: bool
) -> None:
    shown = _show(browser, page, tmp_path, width, dark)
    assert shown.measures["viewport"] == width
    assert shown.measures["width"] <= width
    assert len(shown.measures["images"]) == 3
    assert min(shown.measures["images"]) > 0
    assert shown.corner < 0.2 if dark else shown.corner > 0.95
    assert shown.console == []
    visible, whole, moved = shown.measures["table"]
    assert visible < whole
    assert moved > 0
    before, after = shown.measures["cell"]
    assert before == after  # the names of the methods stay where they are
    assert shown.measures["folded"] == [True, True]


def test_what_is_measured_would_tell(browser: str, tmp_path: Path) -> None:
    broken = '<body style="background: #000"><div style="width: 900px">wide</div><img src="data:image/png;base64,AA">'
    shown = _show(browser, broken + "<script>console.error('bad')</script>", tmp_path, 390, dark=False)
    assert shown.measures["width"] >= 900
    assert shown.measures["images"] == [0]
    assert shown.corner < 0.2
    assert len(shown.console) == 1
