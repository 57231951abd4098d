"""A schema from what sums have found, and from what members declare; each refusal is one line."""

import pytest

from node.estimators.schema import declared_number, declared_schema, number_target, surveyed_schema
from node.jobs.column_survey import ColumnFacts
from node.system.errors import ConfigError
from node.task.data_schema import BooleanColumn, CategoryColumn, NumberColumn, NumberTarget

TARGET = NumberTarget("number", 0.0, 1.0, "y")


def facts(*kinds: int, gaps: int = 0) -> ColumnFacts:
    return ColumnFacts(kinds, gaps, 0.0, 16.0, 10.0, 5.0, 2.6)


@pytest.mark.parametrize(
    ("found", "words", "column"),
    [
        (facts(3, 0, 0), [], NumberColumn("a", "number", 12.0, 0.8)),
        (facts(2, 1, 0, gaps=1), [], NumberColumn("a", "number", 12.0, 0.8, missing=True)),
        (facts(0, 2, 0), [], BooleanColumn("a", "boolean")),
        (facts(0, 0, 3), [(0, "b"), (1, "z"), (0, "a")], CategoryColumn("a", "category", ("a", "b"))),
    ],
)
def test_a_column_of_all_members(found, words, column):
    assert surveyed_schema(["a"], [found], words, TARGET).columns == (column,)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (facts(2, 0, 1), "column 'a' has several kinds: number at 2, text at 1 members"),
        (facts(0, 0, 0), "column 'a' has no value at any member"),
        (facts(0, 0, 3), "column 'a' has no text that 10 rows of a member have"),
    ],
)
def test_columns_that_do_not_go_together(found, told):
    with pytest.raises(ConfigError, match=told):
        surveyed_schema(["a"], [found], [], TARGET)


def test_declared_columns_may_have_gaps_and_keep_to_their_ranges():
    schema = declared_schema(["a", "b", "c"], {"a": (0, 10), "b": ["x"], "c": bool}, TARGET)
    assert schema.columns == (
        NumberColumn("a", "number", 5.0, 2.9, missing=True, low=0.0, high=10.0),
        CategoryColumn("b", "category", ("x",)),
        BooleanColumn("c", "boolean", missing=True),
    )
    assert number_target("y", facts(3, 0, 0)).std == 0.8


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, "columns lacks 'a'"),
        ({"a": (0, 1), "b": (0, 1)}, "columns has 'b', which X has not"),
        ({"a": (1, 1)}, r"columns\['a'\] = \(1, 1\) is refused"),
        ({"a": "text"}, r"columns\['a'\] = 'text' is refused"),
        ({"a": 3}, r"columns\['a'\] = 3 is refused"),
    ],
)
def test_declarations_that_are_refused(columns, told):
    with pytest.raises(ConfigError, match=told):
        declared_schema(["a"], columns, TARGET)


def test_a_declared_range_of_the_target():
    assert declared_number("y", (0, 10)).low == 0.0
    with pytest.raises(ConfigError, match="target_range = None"):
        declared_number("y", None)
