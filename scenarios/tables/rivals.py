"""What scikit-learn learns from the rows of all sites together, in its own encoding."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from scenarios.data.tables import Table
from scenarios.tables.prepared import figure_of

Kind = Literal["linear", "boosting", "poisson", "poisson boosting"]
"""The last two are for counts, whose means they learn."""
NAMES = {
    ("linear", True): "LogisticRegression",
    ("linear", False): "Ridge",
    ("boosting", True): "HistGradientBoosting",
    ("boosting", False): "HistGradientBoosting",
}
_MOST_PASSES = 1000


def fitted_answers(kind: Kind, pooled: Table, test: Table, balanced: bool) -> NDArray[np.float64]:
    """Fit a model to the pooled rows; return its answers for the test rows, (n, k) or (n,).

    They are probabilities of k classes, or numbers. `balanced`: whether each class weighs the same.
    """
    model = _model(kind, pooled, "balanced" if balanced else None)
    model.fit(_matrix(pooled), pooled.y)
    found = model.predict_proba(_matrix(test)) if pooled.is_classes else model.predict(_matrix(test))
    answers: NDArray[np.float64] = np.asarray(found, dtype=np.float64)
    return answers


def boosting_figure(given: Table, test: Table) -> float:
    """Return the AUC of test rows by HistGradientBoosting, or R^2 for numbers."""
    found = fitted_answers("boosting", given, test, balanced=False)
    if not given.is_classes:
        return figure_of(test.y, found, is_classes=False)
    return figure_of(test.y == np.unique(test.y)[-1], found[:, -1], is_classes=True)


def _matrix(table: Table) -> NDArray[Any]:
    """Return the cells (n, columns): numbers, or objects if some columns are words."""
    if table.images is not None:
        return table.images.reshape(len(table), -1) / 255
    columns = list(table.columns.values())
    if any(cells.dtype.kind == "U" for cells in columns):
        return np.stack([cells.astype(object) for cells in columns], axis=1)
    return np.stack(columns, axis=1)


def _model(kind: Kind, table: Table, weights: str | None) -> Any:
    words = [place for place, cells in enumerate(table.columns.values()) if cells.dtype.kind == "U"]
    numbers = [place for place in range(_matrix(table.at(np.arange(1))).shape[1]) if place not in words]
    if kind in ("linear", "poisson"):
        scaled = make_pipeline(SimpleImputer(), StandardScaler())
        coded = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)
        last = (
            LogisticRegression(max_iter=_MOST_PASSES, class_weight=weights) if table.is_classes else Ridge()
        )
        last = PoissonRegressor(alpha=0.0, max_iter=_MOST_PASSES) if kind == "poisson" else last
        return make_pipeline(ColumnTransformer([("n", scaled, numbers), ("w", coded, words)]), last)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    named = ColumnTransformer([("w", codes, words), ("n", "passthrough", numbers)])
    categories = list(range(len(words)))
    loss = "poisson" if kind == "poisson boosting" else "squared_error"
    last = (
        HistGradientBoostingClassifier(categorical_features=categories, class_weight=weights, random_state=0)
        if table.is_classes
        else HistGradientBoostingRegressor(loss=loss, categorical_features=categories, random_state=0)
    )
    return make_pipeline(named, last)
