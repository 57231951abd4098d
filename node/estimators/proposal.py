"""The task that an estimator's parameters and a schema lead to, alike at all members."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from node.init.options import USUAL_ROUNDS
from node.init.proposal import ModelKind, propose_model, propose_plain_training, propose_shared
from node.init.task_file import plain
from node.system.errors import ConfigError, shown
from node.task.data_schema import ClassTarget, NumberColumn, TableSchema
from node.task.load import read_task
from node.task.sections import ADDITIVE, Task
from node.task.shared_noise_keys import DISTRIBUTED
from node.task.table_models import TREES

MODELS = ("additive", "trees", "linear", "network")
_SOME_ROWS = 1000
_OF_TABLES = {"additive": ADDITIVE, "trees": TREES}


@dataclass(frozen=True)
class Wishes:
    """What all members give alike. `members`: how many they are; `keys`: further keys of a task.

    `declared`: what they declare of columns or the target, of a schema.
    """

    model: str
    epsilon: float | None
    delta: float | None
    expected_rows: int | None
    seed: int
    members: int
    keys: Mapping[str, Mapping[str, Any]]
    declared: Mapping[str, Any] = field(default_factory=dict)

    def draft(self) -> Task:
        """Returns the task of the agreement on what the columns hold, which has no model."""
        aggregation = {"min_participants": self.members, **self.keys.get("aggregation", {})}
        return read_task({"task": self._names(), "aggregation": aggregation, "statistics": {}})

    def check(self) -> None:
        """Raises ConfigError for wishes that no schema could make a task of."""
        target = ClassTarget("classes", ("0", "1"), "y")
        column = NumberColumn("x", "number", 0.0, 1.0)
        self.task(TableSchema("table", target, (column,)), _SOME_ROWS)

    def shared(self) -> Mapping[str, Any]:
        """Returns what a member must give as the others do."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def task(self, schema: TableSchema, rows: int | None) -> Task:
        """Returns the task of these columns; `rows`: how many all members have, if they counted them.

        Raises ConfigError for wishes that do not go together.
        """
        expected = self.expected_rows or rows
        table: dict[str, dict[str, Any]] = {
            "task": self._names(),
            "model": {},
            "data": {"schema": plain(schema)},
            "train": {},
            "privacy": {},
            "aggregation": {"min_participants": self.members},
        }
        if self.model not in MODELS:
            raise ConfigError(f"model = {shown(self.model)} is refused; allowed: {', '.join(MODELS)}")
        if self.model in _OF_TABLES:
            table["model"] = {"class": _OF_TABLES[self.model]}
        if expected is None and (self.epsilon is not None or self.model not in _OF_TABLES):
            why = "epsilon" if self.epsilon is not None else f"model = {shown(self.model)}"
            raise ConfigError(
                f"expected_rows is missing, which {why} needs with columns: about how many rows all members "
                "have, the same number at all of them"
            )
        if expected is not None:
            self._learning(table, schema, expected)
        for section, keys in self.keys.items():
            table[section] = table.get(section, {}) | dict(keys)
        return read_task({section: keys for section, keys in table.items() if keys})

    def _names(self) -> dict[str, Any]:
        return {"name": "estimator", "seed": self.seed, **self.keys.get("task", {})}

    def _learning(self, table: dict[str, dict[str, Any]], schema: TableSchema, rows: int) -> None:
        """Adds the model, its training and the noise for so many `rows` of all members."""
        each = max(1, rows // self.members)
        if self.model in _OF_TABLES and self.epsilon is None:
            return
        kind: ModelKind = "network" if self.model == "network" else "linear"
        model = propose_model(schema, rows, kind, private=self.epsilon is not None)
        if self.model not in _OF_TABLES:
            table["model"] = {"class": model.cls, "args": dict(model.args)}
        if self.epsilon is None:
            found = asdict(propose_plain_training(model, schema, each, USUAL_ROUNDS))
            table["train"] = {name: value for name, value in found.items() if name != "searched"}
            return
        shared, _ = propose_shared(self.members, each, model, USUAL_ROUNDS, self.epsilon)
        delta = min(1e-5, 10.0 ** math.floor(math.log10(0.1 / rows)))
        table["train"] = {"expected_rows": rows}
        table["privacy"] = {
            "mechanism": DISTRIBUTED,
            "epsilon": float(self.epsilon),
            "delta": self.delta or delta,
            "honest": shared.honest,
        }
