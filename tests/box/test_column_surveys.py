"""Members of an estimator's fit agree on columns and classes: all find the same, or all hear why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from node.app.run import Prepared
from node.estimators.agreement import prepare_survey
from node.estimators.proposal import Wishes
from node.estimators.schema import class_target, surveyed_schema
from node.estimators.table import LEAST_ROWS, label_words, labels_of, table_of
from node.init.task_file import plain
from node.jobs.cohort import Cohort
from node.jobs.column_survey import ColumnSurvey, OwnColumn
from node.options import NodeOptions
from node.system.errors import ConfigError
from node.system.system import System
from protocol.wire.masked_messages import Masked
from tests.box.box import Box
from tests.box.moments import Moment, dies
from tests.box.test_privacy import to_one_model

MEMBERS = 3
WISHES = Wishes("additive", None, None, None, 0, MEMBERS, {})
ROWS = 2 * LEAST_ROWS
Column = Sequence[object]
USUAL: Mapping[str, Column] = {"age": [20, 60] * LEAST_ROWS, "site": ["a", "b"] * LEAST_ROWS}
FOUND = {"name": "site", "kind": "category", "values": ["a", "b"]}


@pytest.fixture
def survey(make_box) -> Callable[..., Box]:
    """Makes a box of members, of whom the last one has these columns, labels and wishes."""

    def make(
        columns: Mapping[str, Column] = USUAL,
        labels: Column = (0, 1),
        wishes: Wishes = WISHES,
    ) -> Box:
        def prepare(options: NodeOptions, system: System) -> Prepared:
            assert options.shard is not None
            is_last = options.shard[0] == MEMBERS - 1
            held, wished = (columns, wishes) if is_last else (USUAL, WISHES)
            table = table_of(pa.table(dict(held)), list(held))
            y = label_words(np.array(list(labels if is_last else (0, 1))))
            words = [*table.words(), *((len(held), word) for word in y)]
            facts = [*(table.own(name) for name in held), OwnColumn("text", False, np.empty(0))]
            task = replace(options, task=wished.draft())
            return prepare_survey(task, ColumnSurvey(ROWS, facts, words), ROWS, [*held, "y"], wished, system)

        return make_box(MEMBERS, 1, prepare=prepare, usual=(), options=("--wait", "60"))

    return make


def found(box: Box, columns: Sequence[str] = tuple(USUAL)) -> dict:
    """Returns the schema that all members have found. Raises ConfigError if there is none."""
    to_one_model(box)
    (base,) = {node.agreed[1].tobytes() for node in box.nodes}
    known = ColumnSurvey(0, [OwnColumn(None, False, np.empty(0))] * (len(columns) + 1), [])
    vector = Cohort(known).of_job(np.frombuffer(base, np.float32))
    assert known.is_over(vector)
    words = known.all_words(vector)
    target = class_target("y", labels_of([word for place, word in words if place == len(columns)]))
    return plain(surveyed_schema(columns, known.facts(vector), words, target))


@pytest.mark.parametrize(
    ("columns", "labels", "column", "classes"),
    [
        ({**USUAL, "site": ["c"] * ROWS}, (0, 1), {**FOUND, "values": ["a", "b", "c"]}, ["0", "1"]),
        ({**USUAL, "site": [None] * ROWS}, (1, 1), FOUND, ["0", "1"]),
        ({**USUAL, "site": ["rare", *["a"] * (ROWS - 1)]}, (0, 2), FOUND, ["0", "1", "2"]),
    ],
    ids=["own category", "no value, one class", "rare word, own class"],
)
def test_all_find_the_same_though_one_has_other_rows(survey, columns, labels, column, classes) -> None:
    box = survey(columns, labels)
    box.start_all()
    schema = found(box)
    assert schema["columns"][1] == column
    assert schema["target"]["values"] == classes


@pytest.mark.parametrize(
    ("columns", "labels", "line"),
    [
        ({**USUAL, "age": ["old"] * ROWS}, (0, 1), "column 'age' has several kinds: number at 2, text at 1"),
        (USUAL, ("no", "yes"), "labels of several types"),
    ],
    ids=["other type", "other labels"],
)
def test_what_does_not_go_together_is_one_line_for_all(survey, columns, labels, line) -> None:
    box = survey(columns, labels)
    box.start_all()
    with pytest.raises(ConfigError, match=line):
        found(box)


@pytest.mark.parametrize(
    ("columns", "wishes", "line"),
    [
        ({"age": USUAL["age"]}, WISHES, 'estimator.columns.1 is "y" here and "site" there'),
        ({"age": USUAL["age"], "ward": USUAL["site"]}, WISHES, '.columns.1 is "ward" here and "site" there'),
        (USUAL, replace(WISHES, model="linear"), 'estimator.model is "linear" here and "additive" there'),
        (USUAL, replace(WISHES, declared={"columns": [1]}), "estimator.declared.columns.0 is 1 here and"),
    ],
    ids=["fewer columns", "another column", "another model", "declares"],
)
def test_a_member_that_gives_others_is_told_at_once_which_and_the_others_too(survey, columns, wishes, line):
    box = survey(columns, wishes=wishes)
    box.start_all()
    *others, last = box.nodes
    box.run(lambda: last.is_over and all(node.has_said("is in another swarm") for node in others), 10.0)
    assert (last.status, last.lines[-1].count("\n")) == (2, 0)
    assert last.has_said(line)


@pytest.mark.parametrize(
    "moment", [Moment(Masked, 1, 1), Moment(Masked, 1, 2), None], ids=["first sum", "second sum", "late"]
)
def test_one_that_dies_or_comes_late_finds_the_same(survey, moment) -> None:
    box = survey({**USUAL, "site": ["c"] * ROWS})
    *others, last = box.nodes
    if moment is None:
        for node in others:
            node.start()
        box.run_for(30.0)
    else:
        dies(last, moment, power=False)
    last.start()
    assert found(box)["columns"][1]["values"] == ["a", "b", "c"]
