"""Configuration is plain data: it is made without side effects, survives files, and errors come from one place."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.training_cases import assert_same_tensors, checkpoint, small
from torchsims.methods import Method
from torchsims.training import RunConfig, complete_config, read_config, resolve, train, write_config

TEXTS = st.text()
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(-(2**62), 2**62),
    float: st.floats(allow_nan=False),
    tuple[str, ...]: st.lists(TEXTS).map(tuple),
}


def configs() -> st.SearchStrategy[RunConfig]:
    from typing import get_type_hints

    factors = st.dictionaries(TEXTS, st.floats(allow_nan=False))
    hints = get_type_hints(RunConfig)
    return st.builds(RunConfig, **{name: VALUES.get(hint, factors) for name, hint in hints.items()})


@given(configs())
def test_any_configuration_survives_a_file(config: RunConfig) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in ("run.toml", "run.json"):
            write_config(config, Path(folder) / name)
            assert RunConfig.from_dict(read_config(Path(folder) / name)) == config


def test_a_configuration_is_made_without_torch_and_without_files() -> None:
    code = """
import sys
from torchsims.training.config import RunConfig
config = RunConfig(data="nyuv2", root="/nowhere", model="sam2:encoder=/nowhere", method="no such method", epochs=-1)
assert config == RunConfig.from_dict(config.to_dict())
print(repr(config)[:9], "torch" in sys.modules, "numpy" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["RunConfig", "False", "False"]


def test_completing_and_labelling_read_no_file_and_build_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchsims.training import label_of

    def built(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a network was built")

    monkeypatch.setattr(torch.nn.Module, "__init__", built)
    config = complete_config({"data": "table", "root": "/nowhere.csv", "tasks": ["a"], "method": "sims:tau=1"})
    assert label_of(config) == "SIMS, tau 1"
    paper = complete_config({"data": "nyuv2", "root": "/nowhere", "preset": "paper"})
    assert label_of(paper).startswith("SIMS, ")


def test_the_file_of_a_run_repeats_it(tmp_path: Path) -> None:
    train(small(method="sims:tau=1", rescale={"depth": 3.0}), tmp_path / "first")
    config = RunConfig.from_dict(read_config(tmp_path / "first" / "config.toml"))
    train(config, tmp_path / "second")
    assert_same_tensors(checkpoint(tmp_path / "first"), checkpoint(tmp_path / "second"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("epoch = 3", "There is no setting `epoch`. Did you mean `epochs`?"),
        ("epochs = 'ten'", "Setting `epochs` should be a whole number. Found `epochs = 'ten'`."),
        ("epochs = true", "Setting `epochs` should be a whole number"),
        ("tasks = 'seg'", "Setting `tasks` should be a list of texts"),
        ("rescale = {depth = 'much'}", "Setting `rescale` should be a table of numbers"),
        ("epochs = ", "should be TOML"),
    ],
)
def test_bad_files_are_one_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(content)
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        read_config(tmp_path / "run.toml")
    with pytest.raises(ValueError, match="cannot be read"):
        read_config(tmp_path / "no such file.toml")


def test_every_setting_says_what_it_is() -> None:
    assert all(entry.metadata["help"] for entry in fields(RunConfig))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"method": "simms"}, "There is no method `simms`. Did you mean `sims`?"),
        ({"method": "sims:tau=0"}, "Parameter `tau` should be positive"),
        ({"data": "scene"}, "There is no data `scene`. Did you mean `scenes`?"),
        ({"data": "scenes:image=3"}, "There is no option of data `scenes` `image`. Did you mean `images`?"),
        ({"model": "hsp"}, "There is no model `hsp`. Did you mean `hps`?"),
        ({"tasks": ("dept",)}, "There is no task `dept`. Did you mean `depth`?"),
        ({"tasks": ("depth", "depth")}, "Parameter `tasks` should hold distinct names"),
        ({"root": "/nowhere"}, "has no setting `root`"),
        ({"rescale": {"depth": 0.0}}, "Parameter `rescale` should be positive"),
        ({"rescale": {"edges": 2.0}}, "There is no task `edges`"),
        ({"prefer": {"depth": 0.0}}, "Parameter `prefer` should be positive. Found 0.0 for task `depth`"),
        ({"prefer": {"edges": 2.0}}, "There is no task `edges`"),
        ({"prefer": {"depth": 2.0}, "method": "ew"}, r"Method `ew` has no preference. Found one for \['depth'\]"),
        ({"method": "sims:floor=-1"}, "Parameter `kappa` should be positive and finite"),
        ({"method": "sims:floor=0.1:transform=sqrt"}, "Option `floor` should be 0 with a transform other than ln"),
        ({"method": "logmerit:floor=-1"}, "Parameter `floor` should not be negative"),
        ({"epochs": 0}, "Parameter `epochs` should be positive"),
        ({"lr": float("nan")}, "Parameter `lr` should be positive"),
        ({"warmup": 1.0}, r"Parameter `warmup` should be in \[0, 1\)"),
        ({"dtype": "float16"}, "There is no dtype `float16`"),
        ({"seed": -1}, "Parameter `seed` should not be negative"),
        ({"seed": 2**63}, "Parameter `seed` should be below"),
        ({"select": "first"}, "There is no select `first`"),
        ({"select": "best", "select_by": "depth abs"}, "There is no metric to select by `depth abs`"),
        ({"patience": -1}, "Parameter `patience` should not be negative"),
        ({"method": "sims:tau=1:tau=2"}, "should be given once. Found `tau` twice"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        resolve(small(**change))


def test_naming_a_method_draws_no_random_number() -> None:
    before = torch.get_rng_state()
    resolve(small(method="rlw"))
    Method("sims:perturb=0.1").check(["a", "b"])
    assert torch.equal(torch.get_rng_state(), before)


def test_names_have_one_spelling() -> None:
    config = resolve(small(method="SIMS:tau=1.0", tasks=("depth", "seg"), model=" HPS:width=8")).config
    assert config.method == "sims:tau=1"
    assert config.model == "hps:width=8"


def test_a_batch_larger_than_the_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most the number of items, 16"):
        train(small(batch=17), tmp_path)
