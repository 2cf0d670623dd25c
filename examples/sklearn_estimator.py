"""scikit-learn: numbers and classes in one `y`, labels missing, inside a pipeline and a grid search.

    python examples/sklearn_estimator.py    # needs the extra [tables]

Features and numeric targets are standardised inside; the losses that are balanced stay in the units of `y`.
"""

import numpy as np
from sklearn.model_selection import GridSearchCV  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from torchsims.sklearn import MultiTaskEstimator


def main() -> None:
    """Search for the better of two temperatures."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 5))
    y = np.stack([1e4 * x[:, 0], 1e-4 * np.sin(x[:, 1]), x[:, 2] > 0], axis=1)
    y[::3, 1] = np.nan  # missing
    estimator = MultiTaskEstimator(
        method="sims", hidden=(32,), epochs=10, batch_size=16, learning_rate=0.01, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), estimator)
    search = GridSearchCV(pipeline, {"multitaskestimator__method": ["sims:tau=1", "sims:tau=3"]}, cv=2).fit(x, y)
    print(search.best_params_, round(search.best_score_, 3))
    print(search.predict(x[:2]))


if __name__ == "__main__":
    main()
