"""The extra `sweeps`: Optuna chooses from the search space of a method."""

import optuna

from torchsims.scalarizations import LogMerit
from torchsims.spaces import Range


def main() -> None:
    """Ask for one value."""
    tau = LogMerit.search_space["tau"]
    assert isinstance(tau, Range)
    value = optuna.create_study().ask().suggest_float("tau", tau.low, tau.high, log=tau.log)
    assert tau.low <= value <= tau.high


if __name__ == "__main__":
    main()
