"""An estimator for scikit-learn: one network for all columns of ``y``, balanced by any method.

Example:
    >>> import numpy as np
    >>> from torchsims.sklearn import MultiTaskEstimator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> y = np.stack([1e6 * X[:, 0], 1e-3 * X[:, 1]], axis=1)  # two units
    >>> y[::3, 0] = np.nan  # a third of the first target is missing
    >>> model = MultiTaskEstimator(hidden=(32,), batch_size=32, epochs=100, random_state=0).fit(X, y)
    >>> model.predict(X).shape, model.score(X, y) > 0.9
    ((200, 2), True)
"""

from torchsims._extras import needs
from torchsims._starvation import StarvationWarning

with needs("experiments,tables"):
    from torchsims.sklearn._estimator import MultiTaskEstimator

__all__ = ["MultiTaskEstimator", "StarvationWarning"]
