"""The page of a report in a browser: on phone, tablet and desk, by day and by night, on paper, without scripts."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from helpers.finished_runs import METRICS, finished_runs
from torchsims.reporting import comparison_report, write_report
from torchsims.reporting._tables import NAN
from torchsims.training.run import DataSummary

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LABELS = ["EW", "EW, depth x 100", "A method with quite a long name, normals x 0.001", *(f"M{i}" for i in range(6))]
WIDTHS = (390, 820, 1280)
HEIGHT = 400  # of a frame
READABLE = 8.5  # pixels of the smallest letters
APART = 5  # pixels by which the boxes of two texts may overlap: the lines of a label are close
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
FRAME = '<iframe width="{width}" height="{height}" {more} srcdoc="{page}"></iframe>'
HOST = """<!doctype html><title>host</title>
<style>html {{ color-scheme: light dark; }} body {{ margin: 0; }} iframe {{ border: 0; display: block; }}</style>
{frames}<pre id="measures"></pre>
<script>
function measure(view) {{
  const page = view.document, frame = page.querySelector("#section-1 .wide");
  const cell = frame && frame.querySelector("tbody th");
  const left = () => cell && cell.getBoundingClientRect().left, before = left();
  if (frame) frame.scrollLeft = 150;
  const drawings = [...page.querySelectorAll("svg")].map(svg => {{
    const outer = svg.getBoundingClientRect(), scale = outer.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim());
    const boxes = texts.map(text => text.getBoundingClientRect());
    const overlap = (a, b) => Math.min(
      Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
    return {{
      letters: Math.min(...texts.map(text => scale * parseFloat(view.getComputedStyle(text).fontSize))),
      colours: [...new Set(texts.map(text => view.getComputedStyle(text).fill))],
      overlap: Math.max(0, ...boxes.flatMap((a, i) => boxes.slice(i + 1).map(b => overlap(a, b)))),
      outside: Math.max(0, ...boxes.flatMap(box => [outer.left - box.left, box.right - outer.right])),
    }};
  }});
  return {{
    viewport: view.innerWidth,
    width: page.documentElement.scrollWidth,
    images: [...page.images].map(image => image.naturalWidth),
    drawings,
    ink: view.getComputedStyle(page.body).color,
    table: frame && [frame.clientWidth, frame.scrollWidth, frame.scrollLeft],
    cell: [before, left()],
    hint: frame && page.querySelector("#section-1 .hint").getClientRects().length > 0,
    buttons: page.querySelectorAll("thead button").length,
    select: page.querySelectorAll("select").length,
    folded: [...page.querySelectorAll("details")].map(fold => !fold.open),
  }};
}}
function use(view) {{
  const page = view.document, table = page.querySelector("#section-1 table");
  if (!table) return null;
  const heads = [...table.tHead.rows[0].cells], orders = [];
  for (const text of ["seg miou", "seg miou", "depth abs_err", "method"]) {{
    const index = heads.findIndex(head => head.textContent.startsWith(text));
    heads[index].querySelector("button").click();
    orders.push([...table.tBodies[0].rows].map(row => row.cells[index].textContent));
  }}
  const select = page.querySelector("select"), shown = () => heads.filter(head => !head.hidden).map(h => h.textContent);
  select.value = "1";
  select.dispatchEvent(new view.Event("change"));
  const some = shown();
  select.value = "";
  select.dispatchEvent(new view.Event("change"));
  return {{ orders, some, all: shown(), options: [...select.options].map(option => option.textContent) }};
}}
addEventListener("load", () => {{
  const views = [...document.querySelectorAll("iframe")].map(frame => frame.contentWindow);
  const found = {{ frames: views.map(measure), used: {use} ? use(views[0]) : null }};
  document.getElementById("measures").textContent = JSON.stringify(found);
}});
</script>
"""


@dataclass(frozen=True)
class Shown:
    frames: list[dict[str, Any]]
    used: dict[str, Any]
    console: list[str]
    corners: list[float]  # how bright, from 0 to 1


@pytest.fixture(scope="module")
def browser() -> str:
    if CHROMIUM is None:
        assert not os.environ.get("TORCHSIMS_CI"), "Continuous integration should have Chromium. Found none."
        pytest.skip("Chromium is not installed.")
    return CHROMIUM


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = finished_runs(LABELS, seeds=2)
    columns = [{"column": f"c{i}", "read as": "number", "examples": "1, 2, 3"} for i in range(40)]
    runs[0] = replace(runs[0], data=DataSummary({"file": "x" * 90}, columns))
    report = comparison_report(
        "Twelve methods on rendered scenes",
        "torchsims compare --data scenes --methods " + ",".join(LABELS) + " --seeds 2 --out runs/compare",
        runs,
        baseline="EW",
        notes=["A note with a word that is far too long for any phone, and `code`: " + "x" * 200],
    )
    out = tmp_path_factory.mktemp("report") / "out"
    write_report(report, out, 1.0)
    return out


def _show(browser: str, frames: list[str], folder: Path, dark: bool, use: bool = True) -> Shown:
    host, picture = folder / "host.html", folder / "picture.png"
    host.write_text(HOST.format(frames="".join(frames), use=json.dumps(use)), encoding="utf-8")
    options = [
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={max(WIDTHS)},{HEIGHT * len(frames)}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--screenshot={picture}",
        "--dump-dom",
    ]
    done = subprocess.run(
        [browser, *FLAGS, *options, host.as_uri()], capture_output=True, text=True, timeout=90, check=True
    )
    found = re.search(r'<pre id="measures">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, done.stderr
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    pixels = np.asarray(imread(picture))
    corners = [float(pixels[HEIGHT * i + 3, 3, :3].mean()) for i in range(len(frames))]
    return Shown(**json.loads(unescape(found.group(1))), console=console, corners=corners)


def _frame(page: str, width: int, more: str = "") -> str:
    return FRAME.format(width=width, height=HEIGHT, more=more, page=escape(page))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_shows_its_figures_and_follows_the_light(
    browser: str, folder: Path, tmp_path: Path, dark: bool
) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    shown = _show(browser, [_frame(page, width) for width in WIDTHS], tmp_path, dark)
    assert shown.console == []
    for width, frame, corner in zip(WIDTHS, shown.frames, shown.corners, strict=True):
        assert frame["viewport"] == width
        assert frame["width"] <= width
        assert corner < 0.2 if dark else corner > 0.95
        assert len(frame["drawings"]) + len(frame["images"]) == 5
        assert min(frame["images"], default=1) > 0
        for drawing in frame["drawings"]:
            assert drawing["letters"] >= READABLE
            assert drawing["colours"] == [frame["ink"]]
            assert drawing["overlap"] <= APART
            assert drawing["outside"] <= APART
        visible, whole, moved = frame["table"]
        assert frame["hint"] == (visible < whole) == (moved > 0)
        before, after = frame["cell"]
        assert before == after  # the names of the methods stay where they are
        assert frame["folded"] == [True, True, True]
    assert shown.frames[0]["hint"]


def test_columns_are_sorted_and_tasks_filtered(browser: str, folder: Path, tmp_path: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    shown = _show(browser, [_frame(page, 1280)], tmp_path, dark=False)
    *numbers, names = shown.used["orders"]
    for column, descending in zip(numbers, (True, False, False), strict=True):  # the best first
        values = [float(text.split()[0]) for text in column[:-1]]
        assert values == sorted(values, reverse=descending)
        assert column[-1] == NAN  # what has no number is last
        assert len(set(values)) > 3
    assert sorted(names) == sorted(LABELS)
    assert names[0].startswith("A method")
    assert shown.used["options"] == ["all", *METRICS]
    tasks = [text.split()[0] for text in shown.used["some"]]
    assert "depth" in tasks
    assert not {"seg", "normals", "edges"} & set(tasks)
    assert len(shown.used["all"]) == len(shown.used["some"]) + 5


def test_the_page_works_without_scripts(browser: str, folder: Path, tmp_path: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    shown = _show(browser, [_frame(page, 390, 'sandbox="allow-same-origin"')], tmp_path, dark=False, use=False)
    (frame,) = shown.frames
    assert (frame["buttons"], frame["select"]) == (0, 0)
    assert frame["width"] <= 390
    assert frame["table"][2] > 0
    assert not frame["hint"]


def test_the_page_can_be_printed(browser: str, folder: Path, tmp_path: Path) -> None:
    paper = tmp_path / "page.pdf"
    options = [f"--user-data-dir={tmp_path / 'profile'}", "--no-pdf-header-footer", f"--print-to-pdf={paper}"]
    url = (folder / "report.html").as_uri()
    subprocess.run([browser, *FLAGS, *options, url], capture_output=True, timeout=90, check=True)
    content = paper.read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12


def test_what_is_measured_would_tell(browser: str, tmp_path: Path) -> None:
    broken = '<body style="background: #000"><div style="width: 900px">wide</div><img src="data:image/png;base64,AA">'
    texts = '<text y="9" fill="red">one</text><text x="90" y="9">a long text</text><text y="12">two</text>'
    drawing = f'<svg viewBox="0 0 100 20" style="width: 50px">{texts}</svg>'
    page = f"{broken}{drawing}<script>console.error('bad')</script>"
    shown = _show(browser, [_frame(page, 390)], tmp_path, dark=False, use=False)
    (frame,) = shown.frames
    assert frame["width"] >= 900
    assert frame["images"] == [0]
    (found,) = frame["drawings"]
    assert found["letters"] < READABLE
    assert len(found["colours"]) == 2
    assert min(found["overlap"], found["outside"]) > APART
    assert shown.corners[0] < 0.2
    assert len(shown.console) == 1
