"""Estimators that learn with two others in this process; scikit-learn's own checks, and what is refused.

All checks of `check_estimator` pass for both estimators; here are those that say most about ours.
"""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks

from node import SwarmClassifier, UserError
from node.estimators.schema import declared_schema
from node.init.task_file import plain
from node.task.data_schema import ClassTarget
from tests.local_estimators import MEMBERS, LocalClassifier, LocalRegressor, fit_together

LINEAR = {"task": {"train": {"rounds": 3}}, "model": "linear"}
CLASSIFIER, REGRESSOR = LocalClassifier(**LINEAR), LocalRegressor(**LINEAR)
BY_ITSELF = [
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_estimator_cloneable",
]
REFUSED = [
    "check_estimators_unfitted",
    "check_estimator_sparse_array",
    "check_fit1d",
    "check_requires_y_none",
]
DATA = ["check_dict_unchanged", "check_n_features_in_after_fitting"]
CASES = [(estimator, name) for estimator in (CLASSIFIER, REGRESSOR) for name in (*BY_ITSELF, *REFUSED, *DATA)]
CASES += [(CLASSIFIER, "check_classifiers_classes"), (REGRESSOR, "check_supervised_y_2d")]
NUMBERS = {"x0": (-4, 4), "x1": (-4, 4)}
LOCAL = {"mechanism": "ldp", "epsilon": 1.0, "delta": 1e-5, "clipping_radius": 1.0}
SCHEMA = plain(declared_schema(list(NUMBERS), NUMBERS, ClassTarget("classes", ("0", "1"), "y")))
WHOLE = {
    "task": {"name": "own"},
    "model": {"class": "torch.nn:Linear", "args": {"in_features": 2, "out_features": 2}},
    "data": {"schema": SCHEMA},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize(("estimator", "name"), CASES, ids=lambda value: getattr(value, "model", value))
def test_a_check_of_scikit_learn(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


def ward(seed: int, site: str) -> tuple[pa.Table, pa.Array]:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, 150)
    frame = {
        "age": pa.array(age, mask=age == 30),
        "site": rng.choice(["all", site], 150),
        "smokes": rng.random(150) < 0.3,
    }
    return pa.table(frame), np.where(age + 10 * frame["smokes"] > 60, "ill", "well")


def test_members_with_categories_of_their_own_learn_one_model_from_frames(tmp_path):
    members = [SwarmClassifier({"model": {"args": {"trees": 0}}}) for _ in range(MEMBERS)]
    rows = [ward(seed, f"ward {seed}") for seed in range(MEMBERS)]
    fit_together(members, rows, tmp_path)

    (first, _, last), (frame, y) = members, rows[0]
    assert {one.summary_.base_digest for one in members} == {first.summary_.base_digest}
    age, site, smokes = first.task_.data.schema.columns
    assert site.values == ("all", "ward 0", "ward 1", "ward 2")
    assert (age.kind, age.missing, smokes.kind) == ("number", True, "boolean")
    assert list(first.classes_) == ["ill", "well"]
    assert first.score(frame, y) > 0.9
    assert last.predict_proba(frame).sum(1) == pytest.approx(np.ones(150))

    found = first.predict_frame(frame)
    assert found.column_names == ["prediction", "p(ill)", "p(well)"]
    assert found["prediction"].to_pylist() == list(first.predict(frame))
    again = pickle.loads(pickle.dumps(first.set_params(listen=None)))
    assert (again.predict(frame.slice(0, 1)), *again.classes_) == (first.predict(frame)[0], *first.classes_)
    with pytest.raises(TypeError, match="predict_frame needs a data frame; X is ndarray"):
        first.predict_frame(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="column 'age' of X is of the kind text; allowed: number"):
        first.predict(frame.set_column(0, "age", pa.array(["old"] * 150)))


def test_with_epsilon_fits_with_one_key_spend_one_budget(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    y = (x.sum(1) > 0).astype(int)
    keys = {"train": {"steps": 20, "report_every": 20}}

    def fitted(out: str) -> SwarmClassifier:
        members = [
            SwarmClassifier(
                keys,
                epsilon=3,
                columns=NUMBERS,
                classes=[0, 1],
                expected_rows=3000,
                key=tmp_path / f"{number}.key",
                out=tmp_path / out / str(number),
            )
            for number in range(MEMBERS)
        ]
        fit_together(
            members, [(x[number::MEMBERS], y[number::MEMBERS]) for number in range(MEMBERS)], tmp_path
        )
        return members[0]

    first = fitted("first")
    assert first.score(x, y) > 0.8
    assert first.summary_.epsilon <= 3
    with pytest.raises(ValueError, match="has a run that is over; give a new folder"):
        fitted("first")
    with pytest.raises(UserError, match=r"nothing was learned: key .* has too little"):
        fitted("second")


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"peers": ()}, "neither is given: --peers"),
        ({"model": "forest", "columns": NUMBERS, "classes": [0, 1]}, "model = 'forest' is refused"),
        ({"random_state": "x"}, "random_state = 'x' is refused"),
        ({"epsilon": 1.0}, "key is missing, which epsilon needs"),
        ({"epsilon": 1.0, "key": "own.key"}, "columns is missing, which epsilon needs"),
        ({"epsilon": 1.0, "key": "own.key", "columns": NUMBERS}, "classes is missing, which epsilon needs"),
        ({"task": {"privacy": LOCAL}}, "key is missing, which privacy.mechanism = 'ldp' needs"),
        ({"task": {"privacy": LOCAL}, "key": "own.key"}, "columns is missing, which privacy.mechanism"),
        ({"task": WHOLE | {"privacy": LOCAL}}, "key is missing, which privacy.mechanism = 'ldp' needs"),
        ({"model": "linear", "columns": NUMBERS, "classes": [0, 1]}, "expected_rows is missing, which model"),
        ({"task": "digits"}, "task 'digits' has no schema of a table"),
        ({"task": {"data": {"schema": {"kind": "table"}}}}, "task.name is missing"),
        ({"task": {"train": {"round": 3}}}, "round"),
    ],
)
def test_what_a_fit_refuses(parameters, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"peers": ["127.0.0.1:1"], "wait": 0, **parameters}
    with pytest.raises(ValueError, match=told) as found:
        SwarmClassifier(**given).fit(np.zeros((30, 2)), np.arange(30) % 2)
    assert "\n" not in str(found.value)
    assert not list(tmp_path.iterdir())
