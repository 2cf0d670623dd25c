"""The settings of the synthetic experiments: their defaults are valid, and those of the paper's problems."""

from dataclasses import fields
from importlib import import_module

import pytest

from torchsims.experiments import settings
from torchsims.problems import F1, F2, F11, Toy
from torchsims.synthetic.proximal import PROBLEMS


@pytest.mark.parametrize("name", settings.__all__)
def test_defaults_are_valid_and_every_setting_has_a_help_line(name: str) -> None:
    defaults = getattr(settings, name)()
    import_module(f"torchsims.experiments.{name.removesuffix('Settings').lower()}").check(defaults)
    assert all(entry.metadata["help"].endswith(".") for entry in fields(defaults))


def test_default_starts_and_problems_are_those_of_the_problems() -> None:
    assert [list(start) for start in settings.TrajectoriesSettings().starts] == Toy().starts.tolist()
    for defaults in (settings.ProxSettings(), settings.RulesSettings()):
        assert defaults.problems == tuple(PROBLEMS)
        for problem in (F1(), F2(), F11()):
            assert [list(start) for start in defaults.starts] == problem.starts.tolist()
