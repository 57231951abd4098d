"""What a node makes of its task."""

from __future__ import annotations

import pytest

from node.app import liars_of
from node.task.sections import AggregationSection
from protocol.quorum.electorate import BY_SIZE


@pytest.mark.parametrize(
    ("protocol", "liars", "expected"),
    [("masked", None, BY_SIZE), ("additive", None, 0), ("masked", 0, 0), ("additive", 2, 2)],
)
def test_where_every_vote_is_needed_no_elector_may_lie_unless_the_task_says_so(protocol, liars, expected):
    assert liars_of(AggregationSection(protocol=protocol, liars=liars)) == expected
