"""Settings of experiments as plain data, from which their commands are generated; no torch in here."""

from dataclasses import dataclass

from torchsims.training.config import setting

__all__ = [
    "FrontsSettings",
    "PhaseSettings",
    "ProxSettings",
    "RulesSettings",
    "TrajectoriesSettings",
    "VarianceSettings",
]

_NAMES = "Names, separated by commas."
_NUMBERS = "Numbers, separated by commas."
_STARTS = 'Starting points: "0,0; 9,9".'
_VARIANT = "Sign of tanh in f2: paper or cited."
_TAU = "Temperature of SIMS."
_SEED = "Seed of the perturbation of the challenger."
_STEPS = "Largest number of steps per run."
_COMPILE = "Compile the steps; slow to start, then fast."
_QUADRATIC_STARTS = ((-2.0, 2.0), (2.0, -2.0), (3.0, 1.0), (5.0, -5.0))


@dataclass(frozen=True)
class TrajectoriesSettings:
    """Settings of ``torchsims reproduce trajectories``."""

    methods: tuple[str, ...] = setting(("ew", "gls", "stch", "foops", "sims"), _NAMES)
    starts: tuple[tuple[float, ...], ...] = setting(
        ((-8.5, 7.5), (0.0, 0.0), (9.0, 9.0), (-7.5, -0.5), (9.0, -1.0)), _STARTS
    )
    variant: str = setting("paper", _VARIANT)
    tau: float = setting(0.015, _TAU)
    seed: int = setting(0, _SEED)
    steps: int = setting(35_000, _STEPS)
    compiled: bool = setting(True, _COMPILE, "--compile")


@dataclass(frozen=True)
class VarianceSettings:
    """Settings of ``torchsims reproduce variance``."""

    methods: tuple[str, ...] = setting(("ew", "gls", "stch", "foops", "foops-perturbed", "sims"), _NAMES)
    variant: str = setting("paper", _VARIANT)
    tau: float = setting(0.015, _TAU)
    seeds: int = setting(3, "Number of seeds.")
    steps: int = setting(35_000, _STEPS)
    compiled: bool = setting(True, _COMPILE, "--compile")


@dataclass(frozen=True)
class RulesSettings:
    """Settings of ``torchsims reproduce rules``."""

    problems: tuple[str, ...] = setting(("f1", "f2", "f11"), _NAMES)
    starts: tuple[tuple[float, ...], ...] = setting(_QUADRATIC_STARTS, _STARTS)
    tau: float = setting(1.0, _TAU)
    steps: int = setting(20_000, "Steps per run.")
    compiled: bool = setting(True, _COMPILE, "--compile")


@dataclass(frozen=True)
class ProxSettings(RulesSettings):
    """Settings of ``torchsims reproduce prox``."""

    values: tuple[float, ...] = setting((0.0, 1e-4, 1e-3, 1e-2, 1e-1), "Values of lambda, separated by commas.")


@dataclass(frozen=True)
class PhaseSettings:
    """Settings of ``torchsims reproduce phase``: the axes of the map."""

    taus: tuple[float, ...] = setting((0.003, 0.01, 0.015, 0.03, 0.05, 0.1, 0.3, 1.0, 3.0), _NUMBERS)
    ratios: tuple[float, ...] = setting((1.0, 1.5, 2.0, 3.0, 5.0, 10.0), _NUMBERS)
    augments: tuple[float, ...] = setting((0.0, 0.01, 0.1), _NUMBERS)
    seed: int = setting(0, _SEED)
    steps: int = setting(35_000, _STEPS)
    compiled: bool = setting(True, _COMPILE, "--compile")


@dataclass(frozen=True)
class FrontsSettings:
    """Settings of ``torchsims reproduce fronts``."""

    problems: tuple[str, ...] = setting(
        ("zdt1", "zdt2", "zdt3", "floor 0.5", "floor 0.05", "floor 0.005", "toy"), _NAMES
    )
    methods: tuple[str, ...] = setting(("sims", "logmerit", "ew", "stch", "stch-normalized", "pbi", "cosmos"), _NAMES)
    points: int = setting(9, "Number of preferences.")
    spread: float = setting(16.0, "Largest preference over the smallest.")
    tau: float = setting(0.1, "Temperature of SIMS, LogMerit and STCH.")
    steps: int = setting(2000, "Steps per run.")


@dataclass(frozen=True)
class ArchitecturesOptions:
    """Options of ``torchsims reproduce architectures`` beside those of a run."""

    models: tuple[str, ...] = setting((), "Architectures, separated by commas, with options; those that suit the data.")
    method: str = setting("ew", "Method of all runs, with options: ew, sims:tau=1.")
