"""A swarm is split: the side with a quorum makes strong models, and later all are one again.

If an even number is split in half, the side of the first elector (the lowest key) has the quorum.
"""

from __future__ import annotations

import itertools

import msgpack
import pytest

from tests.box.box import Box, BoxNode
from tests.cases import soak
from tests.outcomes import Deadlines

DEADLINES = Deadlines(group_s=5.0, shares_s=5.0, sums_s=5.0)
FOR_EVER = 100_000
SLOWEST_S = 0.5
"""Of a block: a round takes seconds, so that a long partition has few."""


def electors(node: BoxNode) -> set[bytes]:
    """Returns the electors of what follows the strong base of this node."""
    _, members, _, _ = msgpack.unpackb(node.fact("line"))
    return set(members[0])


LONG = (pytest.mark.soak, pytest.mark.slow)


@pytest.mark.parametrize(
    ("here", "there", "for_s"),
    [
        (3, 3, 40.0),
        soak(4, 3, 40.0),
        pytest.param(5, 5, 300.0, marks=LONG),
        pytest.param(4, 3, 300.0, marks=LONG),
    ],
)
def test_one_side_goes_on_and_the_other_comes_back_to_it(
    make_box, here: int, there: int, for_s: float
) -> None:
    count = here + there
    honest = ("aggregation.protocol=masked", "aggregation.liars=0")
    box: Box = make_box(count, FOR_EVER, *honest, *DEADLINES.overrides)
    box.network.slowest_s = SLOWEST_S
    first, second = box.nodes[:here], box.nodes[here:]
    box.start_all()
    box.run(lambda: all(node.has_aggregated(participants=count) for node in box.nodes))
    for one, other in itertools.product(first, second):
        box.network.cut(one.number, other.number)
    box.run_for(for_s)
    assert all(electors(node) == {one.key.public for one in first} for node in first)
    assert all(electors(node) == {one.key.public for one in box.nodes} for node in second), "it has an anchor"
    assert all(any(record.reason for record in node.records) for node in second)

    box.network.heal()
    known = [len(node.records) for node in box.nodes]
    box.run(
        lambda: all(
            any(record.participants == count for record in node.records[old:])
            for node, old in zip(box.nodes, known, strict=True)
        ),
        within_s=60.0,
    )
    of_all = [
        {record.round: record.base_digest for record in node.records if record.participants == count}
        for node in box.nodes
    ]
    last = max(set.intersection(*map(set, of_all)))
    assert len({bases[last] for bases in of_all}) == 1
