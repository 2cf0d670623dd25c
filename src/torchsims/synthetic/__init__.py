"""Many runs on an analytic problem, advanced as one tensor: what the paper's synthetic tables and figures are made of.

- :mod:`~torchsims.synthetic.rows`: the runner, and SIMS for many runs at once.
- :mod:`~torchsims.synthetic.outcomes`: what is recorded of the runs.
- :mod:`~torchsims.synthetic.directions`: what the runner needs of a gradient-level method, and those with a state.
- :mod:`~torchsims.synthetic.two_tasks`: gradient-level methods for two tasks, in closed form.
- :mod:`~torchsims.synthetic.methods`: the methods of the toy experiments by name.
- :mod:`~torchsims.synthetic.proximal`: fixed proximal weights and rules that choose them at every step.
- :mod:`~torchsims.synthetic.fronts`: methods that take a preference, on problems that know their front.
- :mod:`~torchsims.synthetic.cosmos`: COSMOS, one model for all preferences.
- :mod:`~torchsims.synthetic.tables`, :mod:`~torchsims.synthetic.figures`: how results are shown.
- :mod:`~torchsims.synthetic.checks`: checks of the settings of an experiment.

Example:
    >>> from torchsims.problems import F1
    >>> from torchsims.synthetic import Saddle, run_rows
    >>> outcome = run_rows(F1(), Saddle(tau=1.0, offset=0.1), F1().starts, steps=400, lr=0.1, stop_distance=0.05)
    >>> outcome.reached
    tensor([True, True, True, True])
"""

from torchsims.synthetic.directions import GradientMethod
from torchsims.synthetic.outcomes import Outcome
from torchsims.synthetic.rows import Method, Saddle, run_rows

__all__ = ["GradientMethod", "Method", "Outcome", "Saddle", "run_rows"]
