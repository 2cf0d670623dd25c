"""The documentation site: all links lead somewhere, every method has its page, and a browser shows it.

``make docs-test`` builds the site and runs these tests; without a site they are skipped.
"""

import json
import os
import queue
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import pytest

from test_documents import MODULES
from torchsims.methods import METHODS, Method

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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
SPECIAL = ("genindex.html", "py-modindex.html", "search.html", "_modules/")  # made by Sphinx, not by a page of ours
READABLE = 4.5  # contrast of text on its background that WCAG 2 asks for
Act = Callable[..., Any]


class _Page(HTMLParser):
    """The links, anchors, texts and sources of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        self.anchors |= {str(values[key]) for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        elif tag == "link" and values.get("rel") not in ("index", "search", "next", "prev"):
            self.sources.append(values.get("href") or "")
        elif values.get("src"):
            self.sources.append(str(values["src"]))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def site() -> Path:
    folder = os.environ.get("TORCHSIMS_SITE")
    if not folder:
        pytest.skip("There is no site: `make docs-test` builds one and runs these tests.")
    assert (Path(folder) / "index.html").is_file(), f"There should be a site in `{folder}`. Build it with `make docs`."
    return Path(folder)


@cache
def _read(path: Path) -> _Page:
    return _Page(path)


def _pages(site: Path) -> list[str]:
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if "_static" not in path.parts)


def test_every_internal_link_and_anchor_leads_somewhere(site: Path) -> None:
    broken = []
    for name in _pages(site):
        for link in _read(site / name).links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            path = (site / name).parent / unquote(target.path) if target.path else site / name
            exists = path.resolve().is_file()
            anchors = _read(path.resolve()).anchors if exists and path.suffix == ".html" else set()
            if not exists or (target.fragment and unquote(target.fragment) not in anchors):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    elsewhere = [
        source for name in _pages(site) for source in _read(site / name).sources if re.match(r"\w+:|//", source)
    ]
    assert [source for source in elsewhere if not source.startswith("data:")] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\(\s*[\"']?)\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_navigation_of_the_home_page_reaches_every_page(site: Path) -> None:
    listed = {urlsplit(link).path for link in _read(site / "index.html").links}
    assert [name for name in _pages(site) if not name.startswith(SPECIAL) and name not in listed | {"index.html"}] == []


@pytest.mark.parametrize("name", METHODS.names())
def test_every_method_has_a_page(site: Path, name: str) -> None:
    page = _read(site / "methods" / f"{name}.html")
    text = " ".join(" ".join(page.words).split())
    method, title = Method(name), METHODS.load(name).__name__
    assert "math" in page.tags  # its formula
    assert f"{method.passes} (forward" in text
    assert method.family in text
    assert re.search(r"Independent of units \w+", text)
    assert len(text.split("When to use it")[1].split("Definition")[0].split()) > 8
    source = next(link for link in page.links if "_modules/" in link and link.endswith(f"#{title}"))
    assert (site / "methods" / urlsplit(source).path).is_file()


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile  # an extra

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    documented = {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}
    homes: dict[int, set[str]] = {}
    for module in MODULES:
        for name in module.__all__:
            if callable(value := getattr(module, name)):
                homes.setdefault(id(value), set()).add(f"{module.__name__}.{name}")
    assert [names for names in homes.values() if not names & documented] == []


def test_formulas_are_not_left_as_tex(site: Path) -> None:
    for name in _pages(site):
        if not name.startswith(("_modules/", "recipes/")):
            assert not re.search(r"\\(frac|sum|theta|tau|ln|exp)\b", _read(site / name).text), name


# In a browser


@pytest.fixture(scope="module")
def act(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Act]:
    """Yield a function that lets the browser do something with the site: see ``host.html``."""
    if CHROMIUM is None:
        assert not os.environ.get("TORCHSIMS_CI"), "Continuous integration should have Chromium. Found none."
        pytest.skip("Chromium is not installed.")
    answers: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(site))

        def do_GET(self) -> None:
            files = {"/host.html": Path(__file__).with_name("host.html").read_bytes(), "/favicon.ico": b""}
            files["/pages.json"] = json.dumps([name for name in _pages(site) if not name.startswith("_")]).encode()
            if (body := files.get(urlsplit(self.path).path)) is None:
                return super().do_GET()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)
            return None

        def do_POST(self) -> None:
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()

    def run(action: str, width: int, dark: bool, **options: str) -> Any:
        folder = tmp_path_factory.mktemp("browser")
        query = urlencode({"action": action, "width": width, **options})
        url = f"http://localhost:{server.server_port}/host.html?{query}"
        window = [f"--user-data-dir={folder}", f"--window-size={max(width, 500)},900"]
        theme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        with (folder / "log").open("wb") as log:
            browser = subprocess.Popen([CHROMIUM, *FLAGS, *window, theme, "--remote-debugging-port=0", url], stderr=log)
            try:
                answer = answers.get(timeout=150)
            finally:
                browser.terminate()
                browser.wait(30)
        lines = (folder / "log").read_text(errors="replace").splitlines()
        assert [line for line in lines if ":CONSOLE" in line and "Changed to" not in line] == []  # Furo tells its theme
        assert "error" not in answer, answer
        return answer["result"]

    yield run
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)], ids=["dark phone", "light desk"])
def test_every_page_fits_the_screen_and_can_be_read(act: Act, site: Path, width: int, dark: bool) -> None:
    found = act("pages", width, dark)
    assert len(found) > 60
    assert {page["viewport"] for page in found.values()} == {width}
    assert {name: page["width"] for name, page in found.items() if page["width"] > width} == {}
    assert {name: page["cut"] for name, page in found.items() if page["cut"]} == {}
    assert {name: page["pictures"] for name, page in found.items() if page["pictures"]} == {}
    assert {name: page["background"] for name, page in found.items() if (page["background"] < 0.1) != dark} == {}
    assert {name: page["faintest"] for name, page in found.items() if page["faintest"]["contrast"] < READABLE} == {}


def test_the_search_finds_pages_and_leads_there(act: Act) -> None:
    found = act("search", 1280, False, query="starved")
    assert any(hit.startswith("concepts.html") for hit in found["hits"])
    assert found["path"].endswith(".html")
    assert "starv" in found["text"].lower()
    assert act("search", 390, True, query="nonsenseword")["hits"] == []


@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desk"])
def test_the_navigation_leads_from_page_to_page(act: Act, width: int) -> None:
    found = act("navigate", width, False, title="Quick start")
    assert found == {
        "hidden": width == 390,
        "opened": True,
        "first": "/quickstart.html",
        "second": "/do-i-need-this.html",
    }


def test_the_button_changes_the_theme(act: Act) -> None:
    themes = dict(act("theme", 1280, False))
    assert themes.keys() == {"auto", "light", "dark"}
    assert themes["dark"] < 0.1 < 0.9 < themes["light"]
