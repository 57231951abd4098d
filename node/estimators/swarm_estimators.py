"""`SwarmClassifier` and `SwarmRegressor`: estimators of scikit-learn that learn with a swarm's members."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from node.api.peer import TaskLike, task_of
from node.app.start_checks import named_members
from node.data.encoding import features
from node.data.files.csv_and_parquet import TO_PREDICT, frame_of
from node.data.in_memory import is_frame
from node.estimators.learning import Contact, Member
from node.estimators.proposal import Wishes
from node.estimators.schema import (
    Declared,
    class_target,
    declared_number,
    declared_schema,
    number_target,
    surveyed_schema,
)
from node.estimators.table import (
    Labels,
    Table,
    check_frame,
    check_words,
    frame_like,
    label_texts,
    label_words,
    labels_of,
    table_of,
)
from node.init.task_file import plain
from node.jobs.column_survey import ColumnFacts, OwnColumn, Word
from node.options import FIRST_WAIT, NodeOptions
from node.predict.model import SavedModel, answer, calibration, in_own_units
from node.system.errors import ConfigError, shown
from node.task.data_schema import ClassTarget, NumberTarget, TableSchema, Target
from node.task.sections import Task
from node.training.figures.metrics import chosen_labels, probabilities
from node.training.losses import answers

_LEAST_MEMBERS = 3
_NO_NOISE = "none"
_ANY_TARGET = NumberTarget("number", 0.0, 1.0, "y")
_KEYS_OF_A_TASK = ("model", "epsilon", "delta", "columns", "expected_rows")
"""The parameters that a complete task replaces."""


class _SwarmEstimator(BaseEstimator):
    """What both estimators share. The parameters are said at `SwarmClassifier`."""

    task: TaskLike | None
    peers: Sequence[str]
    tracker: str | None
    listen: str | socket.socket | None
    model: str
    epsilon: float | None
    delta: float | None
    columns: Declared | None
    expected_rows: int | None
    wait: int | str
    out: str | Path | None
    key: str | Path | None
    allow: str | Path | None
    open: bool
    random_state: int | None

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 - scikit-learn's name
        """Learns with the other members from the rows X (n, columns) and their targets y (n,); returns self.

        It blocks until the run is over. Raises ValueError or TypeError for what this member can correct, and
        a UserError if the others do not come or go.
        """
        contact = self._contact()
        with _as_value_errors(), closing(contact):
            X, targets = self._checked(X, y)  # noqa: N806 - as above
            options, complete = contact.options(), self._complete_task()
            table = table_of(X, self._names(complete))
            if complete is None:
                task, rows, member = self._agreed(table, targets, contact, options)
            else:
                self._check_key(_noise_of(complete.privacy.mechanism))
                member = Member(contact, options)
                task, rows = complete, table.rows(_table_schema(complete), self._target_cells(targets))
            learned = member.learn(task, rows)
        self.task_, self.model_ = task, learned.model
        self.summary_, self.out_ = learned.summary, learned.out
        self._keep_classes(targets)
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803 - scikit-learn's name
        """Returns a prediction for each row of X: (n,)."""
        raise NotImplementedError

    def predict_frame(self, X: Any) -> Any:  # noqa: N803 - scikit-learn's name
        """Returns the predictions as a data frame of the kind of X, with its index.

        Raises TypeError if X is no data frame.
        """
        if not is_frame(X):
            raise TypeError(f"predict_frame needs a data frame; X is {type(X).__name__}: take predict")
        return frame_like(X, {"prediction": self.predict(X), **self._beside(X)})

    def _beside(self, X: Any) -> Mapping[str, NDArray[Any]]:  # noqa: N803 - scikit-learn's name
        """Returns further columns of a frame of predictions."""
        return {}

    # -- what is given

    def _checked(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:  # noqa: N803 - scikit-learn's name
        """Returns X and y as scikit-learn accepts them."""
        if is_frame(X):
            check_frame(X)
            validate_data(self, X, skip_check_array=True)
        else:
            X = validate_data(  # noqa: N806 - as above
                self, X, y, ensure_all_finite="allow-nan", multi_output=True, ensure_min_samples=2
            )[0]
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None"
            )
        targets = column_or_1d(y, warn=True)
        check_consistent_length(X, targets)
        return X, self._checked_targets(targets)

    def _checked_targets(self, targets: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError

    def _names(self, task: Task | None) -> list[str]:
        """Returns the names of X's columns: its own, else those of the task's schema, else x0, x1, ..."""
        named = getattr(self, "feature_names_in_", None)
        if named is not None:
            return list(named)
        if task is None:
            return [f"x{number}" for number in range(self.n_features_in_)]
        names = [column.name for column in _table_schema(task).columns]
        if len(names) != self.n_features_in_:
            raise ConfigError(
                f"X has {self.n_features_in_} columns without names; allowed: the {len(names)} of the task, "
                "in their order, or a data frame"
            )
        return names

    def _contact(self) -> Contact:
        return Contact(
            self.peers, self.tracker, self.listen, self.wait, self.out, self.key, self.allow, self.open
        )

    @property
    def _keys(self) -> Mapping[str, Any] | None:
        """The keys of a task without a schema; None if the task has one, and says all."""
        if self.task is None:
            return {}
        if not isinstance(self.task, Mapping):
            return None
        data = self.task.get("data", {})
        return None if isinstance(data, Mapping) and "schema" in data else self.task

    def _complete_task(self) -> Task | None:
        """Returns the task that says what a row is; None if the members have to agree on that."""
        if self.task is None or self._keys is not None:
            return None
        task = task_of(self.task)
        _table_schema(task)
        usual = type(self)()
        for name in (*_KEYS_OF_A_TASK, *self._target_parameters()):
            if getattr(self, name) != getattr(usual, name):
                raise ConfigError(
                    f"{name} = {shown(getattr(self, name))} is refused beside a task with a schema, which "
                    "says it: leave it out"
                )
        return task

    def _wishes(self, options: NodeOptions) -> Wishes:
        if self.random_state is not None and not isinstance(self.random_state, int | np.integer):
            raise ConfigError(
                f"random_state = {shown(self.random_state)} is refused; allowed: None or a whole number, the "
                "same at all members"
            )
        keys = self._keys or {}
        given = keys.get("privacy", {})
        noise = _noise_of(given.get("mechanism", _NO_NOISE) if isinstance(given, Mapping) else _NO_NOISE)
        noise = noise if self.epsilon is None else "epsilon"
        self._check_key(noise)
        if noise is not None and (self.columns is None or self._declared_target() is None):
            missing = "columns" if self.columns is None else self._target_parameters()[0]
            raise ConfigError(
                f"{missing} is missing, which {noise} needs: ranges and categories from the members' rows "
                "would be covered by no noise; declare them, alike at all members, or give a whole task"
            )
        named = len(named_members(options)) if options.tracked_by is None else 0
        least = keys.get("aggregation", {}).get("min_participants", 0)
        return Wishes(
            model=self.model,
            epsilon=self.epsilon,
            delta=self.delta,
            expected_rows=self.expected_rows,
            seed=int(self.random_state or 0),
            members=max(_LEAST_MEMBERS, named, least),
            keys=keys,
        )

    def _check_key(self, noise: str | None) -> None:
        """Raises ConfigError for `noise` without a key, beside which fits add up what they spend."""
        if noise is not None and self.key is None:
            raise ConfigError(
                f"key is missing, which {noise} needs: the file of this member's key, beside which all its "
                "fits count what they have spent"
            )

    # -- what all agree on

    def _agreed(
        self, table: Table, targets: NDArray[Any], contact: Contact, options: NodeOptions
    ) -> tuple[Task, Any, Member]:
        """Returns the task, the rows that it encodes, and the member that has agreed on it."""
        wishes, names = self._wishes(options), list(table.columns)
        name = "y"
        while name in names:
            name += "_"
        given = self._declared_target()
        target = None if given is None else self._target_of(name, given)
        schema = None if self.columns is None else declared_schema(names, self.columns, target or _ANY_TARGET)
        if schema is not None and target is not None:
            task = wishes.task(schema, None)
            rows = table.rows(schema, self._target_cells(targets))
            return task, rows, Member(contact, options)
        said = {"columns": () if schema is None else schema.columns, "target": target}
        wishes = replace(wishes, declared={key: plain(value) for key, value in said.items() if value})
        wishes.check()
        words = table.words()
        own, own_words = self._own_target(targets, len(names))
        columns = [*(table.own(one) for one in names), own]
        member = Member(contact, options)
        found = member.agree([*names, name], len(targets), columns, [*words, *own_words], wishes)
        of_target = [word for place, word in found.words if place == len(names)]
        target = self._found_target(name, found.facts[-1], of_target)
        schema = (
            surveyed_schema(names, found.facts, found.words, target)
            if schema is None
            else replace(schema, target=target)
        )
        return wishes.task(schema, found.rows), table.rows(schema, self._target_cells(targets)), member

    def _target_parameters(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _declared_target(self) -> Any:
        """Returns what the members declare of the target; None: nothing."""
        return getattr(self, self._target_parameters()[0])

    def _target_of(self, name: str, declared: Any) -> Target:
        raise NotImplementedError

    def _own_target(self, targets: NDArray[Any], place: int) -> tuple[OwnColumn, list[Word]]:
        raise NotImplementedError

    def _found_target(self, name: str, facts: ColumnFacts, words: Sequence[str]) -> Target:
        raise NotImplementedError

    def _target_cells(self, targets: NDArray[Any]) -> pa.Array:
        raise NotImplementedError

    def _keep_classes(self, targets: NDArray[Any]) -> None:
        """Keeps the classes, if there are any."""

    # -- predictions

    def _outputs(self, X: Any) -> tuple[SavedModel, torch.Tensor]:  # noqa: N803 - scikit-learn's name
        """Returns the model and its outputs for X."""
        check_is_fitted(self)
        schema = _table_schema(self.task_)
        with _as_value_errors():
            if is_frame(X):
                validate_data(self, X, reset=False, skip_check_array=True)
            else:
                X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan")  # noqa: N806
            rows = table_of(X, self._names(self.task_)).rows(schema)
            wanted = [column.name for column in schema.columns]
            frame = frame_of(rows.table, wanted, dialect=schema.written, limits=TO_PREDICT)
            x, _ = features(schema, frame)
            target = schema.target
            classes = len(target.values) if isinstance(target, ClassTarget) else None
            saved = SavedModel(self.model_, self.task_, classes, schema.shape, {})
            return saved, answer(saved, torch.from_numpy(x))

    def __sklearn_tags__(self) -> Tags:
        """Says what X may hold."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags


class SwarmClassifier(ClassifierMixin, _SwarmEstimator):
    """A classifier that learns with the other members of a swarm: no server, nobody sees another's rows.

    ```python
    model = SwarmClassifier(peers=["10.0.0.5:9001", "10.0.0.7:9001", "10.0.0.9:9001"], open=True)
    model.fit(X, y)             # returns when the run with the others is over
    model.predict_proba(X_new)
    ```

    Each member gives the same parameters, but for `listen`, `out`, `key` and `allow`, and its own rows.

    Args:
        task: None; keys of a task as a table, such as `{"train": {"rounds": 5}}`; or a complete task with a
            schema (FILE.toml, a table, a Task), in place of the next six parameters.
        model: "additive" (a curve a column, then trees), "trees", "linear" or "network".
        epsilon: the privacy budget of a row in a run; None: no noise. It needs `columns`, `classes`,
            `expected_rows` and `key`.
        delta: the other part of the budget; None: at most .1 a row of all.
        columns: what each column of X may hold: (least, greatest), a list of categories, or bool. None: the
            members agree on it, by sums without noise.
        classes: the labels; None: all labels of the members, who tell each other.
        expected_rows: about how many rows all members have; None: they count them, without noise.
        peers, tracker, listen, wait, out, key, allow, open: as those of `Peer`. `fit` closes a socket that is
            given as `listen`. `out` must be a new folder, or one of a `fit` that was interrupted; None: a
            new one in `runs`.
        random_state: seeds the first model, and which rows are held back to measure it.

    Attributes:
        classes_: the labels (k,), in the order of `predict_proba`.
        model_: the torch module; task_: the task; summary_: how the run went; out_: its folder.
        n_features_in_, feature_names_in_: as scikit-learn has them.
    """

    def __init__(
        self,
        task: TaskLike | None = None,
        *,
        model: str = "additive",
        epsilon: float | None = None,
        delta: float | None = None,
        columns: Declared | None = None,
        classes: Sequence[Any] | None = None,
        expected_rows: int | None = None,
        peers: Sequence[str] = (),
        tracker: str | None = None,
        listen: str | socket.socket | None = None,
        wait: int | str = FIRST_WAIT,
        out: str | Path | None = None,
        key: str | Path | None = None,
        allow: str | Path | None = None,
        open: bool = False,  # noqa: A002 - the option has this name
        random_state: int | None = None,
    ) -> None:
        """Keeps the parameters; `fit` checks them."""
        self.task = task
        self.model = model
        self.epsilon = epsilon
        self.delta = delta
        self.columns = columns
        self.classes = classes
        self.expected_rows = expected_rows
        self.peers = peers
        self.tracker = tracker
        self.listen = listen
        self.wait = wait
        self.out = out
        self.key = key
        self.allow = allow
        self.open = open
        self.random_state = random_state

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803 - scikit-learn's name
        """Returns the class of each row of X: (n,)."""
        _, outputs = self._outputs(X)
        chosen: NDArray[Any] = self.classes_[chosen_labels(outputs).numpy()]
        return chosen

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 - scikit-learn's name
        """Returns the probability of each class (n, k), in the order of `classes_`."""
        saved, outputs = self._outputs(X)
        corrected = calibration(saved)
        if corrected is None:
            raise ValueError("a classifier has classes")
        return probabilities(corrected.applied(outputs)).astype(np.float64)

    def _beside(self, X: Any) -> Mapping[str, NDArray[Any]]:  # noqa: N803 - scikit-learn's name
        chances = self.predict_proba(X).T
        return {f"p({label})": column for label, column in zip(self.classes_, chances, strict=True)}

    def _checked_targets(self, targets: NDArray[Any]) -> NDArray[Any]:
        values = targets.tolist()
        if None in values:
            raise ConfigError(f"y has no value in row {values.index(None)}; leave out the rows without one")
        if targets.dtype.kind in "fc":
            check_array(targets, ensure_2d=False, dtype=None)
        check_classification_targets(targets)
        return targets

    def _target_parameters(self) -> tuple[str, ...]:
        return ("classes",)

    def _target_of(self, name: str, declared: Any) -> Target:
        return class_target(name, labels_of(label_words(np.asarray(declared))))

    def _own_target(self, targets: NDArray[Any], place: int) -> tuple[OwnColumn, list[Word]]:
        words = label_words(targets if self.classes is None else np.asarray(self.classes))
        check_words(words, "y")
        return OwnColumn("text", False, np.empty(0)), [(place, word) for word in words]

    def _found_target(self, name: str, facts: ColumnFacts, words: Sequence[str]) -> Target:
        return class_target(name, labels_of(words))

    def _target_cells(self, targets: NDArray[Any]) -> pa.Array:
        return label_texts(targets)

    def _keep_classes(self, targets: NDArray[Any]) -> None:
        target = _table_schema(self.task_).target
        if isinstance(target, ClassTarget):
            self.classes_ = Labels(label_words(targets)[0][0], target.values).array(targets.dtype)


class SwarmRegressor(RegressorMixin, _SwarmEstimator):
    """A regressor that learns with the other members of a swarm, as `SwarmClassifier` does.

    In place of `classes` it has `target_range`: (least, greatest) of y, to which targets are cut; None: the
    members agree on the scale of y.
    """

    def __init__(
        self,
        task: TaskLike | None = None,
        *,
        model: str = "additive",
        epsilon: float | None = None,
        delta: float | None = None,
        columns: Declared | None = None,
        target_range: tuple[float, float] | None = None,
        expected_rows: int | None = None,
        peers: Sequence[str] = (),
        tracker: str | None = None,
        listen: str | socket.socket | None = None,
        wait: int | str = FIRST_WAIT,
        out: str | Path | None = None,
        key: str | Path | None = None,
        allow: str | Path | None = None,
        open: bool = False,  # noqa: A002 - the option has this name
        random_state: int | None = None,
    ) -> None:
        """Keeps the parameters; `fit` checks them."""
        self.task = task
        self.model = model
        self.epsilon = epsilon
        self.delta = delta
        self.columns = columns
        self.target_range = target_range
        self.expected_rows = expected_rows
        self.peers = peers
        self.tracker = tracker
        self.listen = listen
        self.wait = wait
        self.out = out
        self.key = key
        self.allow = allow
        self.open = open
        self.random_state = random_state

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 - scikit-learn's name
        """Returns the prediction for each row of X: (n,), in the unit of y."""
        saved, outputs = self._outputs(X)
        return in_own_units(saved, answers(self.task_.train, outputs).reshape(-1).numpy())

    def _checked_targets(self, targets: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = check_array(targets, ensure_2d=False, dtype=np.float64)
        return found

    def _target_parameters(self) -> tuple[str, ...]:
        return ("target_range",)

    def _target_of(self, name: str, declared: Any) -> Target:
        return declared_number(name, declared)

    def _own_target(self, targets: NDArray[Any], place: int) -> tuple[OwnColumn, list[Word]]:
        return OwnColumn("number", False, targets), []

    def _found_target(self, name: str, facts: ColumnFacts, words: Sequence[str]) -> Target:
        return (
            number_target(name, facts)
            if self.target_range is None
            else self._target_of(name, self.target_range)
        )

    def _target_cells(self, targets: NDArray[Any]) -> pa.Array:
        return pa.array(targets)


def _table_schema(task: Task) -> TableSchema:
    """Returns the task's schema of a table; ConfigError if it has none."""
    schema = task.data.schema
    if not isinstance(schema, TableSchema):
        raise ConfigError(
            f"task {shown(task.task.name)} has no schema of a table; allowed: a task that murmuration init "
            "wrote, keys without a schema, or None"
        )
    return schema


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Raises a ConfigError as scikit-learn's callers expect it."""
    try:
        yield
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _noise_of(mechanism: object) -> str | None:
    """Returns the words for a task's mechanism of privacy; None: it has none."""
    return None if mechanism == _NO_NOISE else f"privacy.mechanism = {shown(mechanism)}"
