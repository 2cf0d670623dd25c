"""Names with options, and registries: what is written is what is meant, and nothing is imported that nobody named."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsims import registry
from torchsims.registry import Registry, Spec, convert_options, option_text, split_list

KEYS = st.text(min_size=1)
VALUES = st.text()


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.sampled_from(["sims", "a.b:C", "pkg.mod_x:Outer.Inner"]))
def test_any_options_survive_writing_down(options: dict[str, str], name: str) -> None:
    spec = Spec(name, options)
    assert Spec.parse(str(spec)) == spec


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=2), min_size=1, max_size=3))
def test_any_list_of_specs_survives_writing_down(many: list[dict[str, str]]) -> None:
    specs = [Spec("sims", options) for options in many]
    assert [Spec.parse(text) for text in split_list(", ".join(map(str, specs)))] == specs


INTEGERS = st.integers(-(2**63), 2**63 - 1)


@given(st.one_of(st.booleans(), INTEGERS, st.floats(allow_nan=False), st.text(alphabet="abc/:=", min_size=1)))
def test_any_value_survives_writing_down(value: object) -> None:
    assert convert_options("x", {"key": option_text(value)}, {"key": value}) == {"key": value}


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("a.b:C:opt=1", "a.b:C", {"opt": "1"}),
        ("hps:encoder=DIR", "hps", {"encoder": "DIR"}),
        ("sam2:encoder=C:/weights=1/x:rank=4", "sam2", {"encoder": "C:/weights=1/x", "rank": "4"}),
        ('hps:encoder="a:b=c":width=8', "hps", {"encoder": "a:b=c", "width": "8"}),
        ('fixed:"mg/dL"=1:Price=2', "fixed", {"mg/dL": "1", "Price": "2"}),
        (" Nash-MTL : update_every = 2", "nashmtl", {"update_every": "2"}),
    ],
)
def test_texts_mean_one_thing(text: str, name: str, options: dict[str, str]) -> None:
    assert Spec.parse(text) == Spec(name, options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a b:C", "An option should look like name=value. Found `C` in `a b:C`."),
        ("sims:tau=1:tau=2", "An option should be given once. Found `tau` twice"),
    ],
)
def test_texts_that_mean_nothing_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        Spec.parse(text)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return a registry for which an installed package registers `mine`; a second class is importable only."""
    (tmp_path / "a_plugin.py").write_text("class Mine: pass\nclass Other: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = [EntryPoint("Mine", "a_plugin:Mine", "group")]
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == "group" else [])
    return Registry("thing", "group", lambda: {"list": "builtins:list"})


def test_three_doors_lead_to_one_room(plugin: Registry) -> None:
    assert plugin.names() == ("list", "mine")
    assert plugin.load("list") is list
    assert plugin.load("mine") is plugin.load("a_plugin:Mine")
    assert plugin.load("a_plugin:Other").__name__ == "Other"


def test_installed_packages_are_looked_through_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def look(group: str) -> list[EntryPoint]:
        asked.append(group)
        return []

    monkeypatch.setattr(registry, "entry_points", look)
    monkeypatch.syspath_prepend(tmp_path)
    known = Registry("thing", "group", lambda: {"list": "builtins:list"})
    assert known.names() == known.names() == ("list",)
    assert asked == ["group"]
    monkeypatch.syspath_prepend(tmp_path / "more")  # there may be packages now that were not found before
    known.names()
    assert asked == ["group", "group"]


def test_listing_and_checking_import_nothing(plugin: Registry) -> None:
    sys.modules.pop("a_plugin", None)
    assert plugin.is_registered("mine")
    assert plugin.is_registered("a_plugin:Mine")
    assert not plugin.is_registered("a_plugin:Other")
    plugin.names()
    assert "a_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("lits", "There is no thing `lits`. Did you mean `list`?"),
        ("no_such_module:X", "`no_such_module:X` should name a class of a module that can be imported"),
        ("a_plugin:Missing", "Found no `Missing` in `a_plugin`."),
    ],
)
def test_unknown_names_are_one_sentence(plugin: Registry, name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        plugin.load(name)
