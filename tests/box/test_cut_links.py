"""The link between two of five whole nodes is cut for a minute, and both reach all others."""

from __future__ import annotations

import pytest

from tests.box.box import Box, BoxNode
from tests.box.ledgers import charges
from tests.cases import soak

PEERS, FOR_EVER = 5, 100_000
CUT_S, AFTER_S = 60.0, 30.0
SLOWEST_S = 0.5
"""Of a block: a sum takes seconds, so that a minute has few."""
LOST, BACK = 2, 4
SETTLED_S = 5.0


def sums(node: BoxNode, since: int) -> list[int]:
    """Returns how many were in each sum of a node, from this one of its records on."""
    return [record.participants for record in node.records[since:] if record.reason is None]


@pytest.mark.sampled
@pytest.mark.parametrize("link", [(0, 3), soak((1, 3))])  # 0 coordinates
def test_all_but_one_of_the_two_are_in_all_sums_and_both_are_back_soon(
    make_box, link: tuple[int, int]
) -> None:
    box: Box = make_box(PEERS, FOR_EVER, "aggregation.protocol=masked")
    box.network.slowest_s = SLOWEST_S
    box.start_all()
    box.run(lambda: all(node.has_aggregated(rounds=4, participants=PEERS) for node in box.nodes))
    before = [len(node.records) for node in box.nodes]
    box.network.cut(*link)
    box.run_for(CUT_S)
    during = [len(sums(node, known)) for node, known in zip(box.nodes, before, strict=True)]
    most = max(during)
    assert most >= 10
    assert sorted(during)[1] >= most - LOST, "all but one"
    assert most - min(during[end] for end in link) > LOST, "one of the two is out"

    box.network.heal()
    known = [len(node.records) for node in box.nodes]
    box.run_for(AFTER_S)
    for node, since in zip(box.nodes, known, strict=True):
        assert PEERS in sums(node, since)[: BACK + 1], (node.number, sums(node, since))


def test_of_three_the_one_who_reaches_both_is_charged_at_most_once_for_nothing(make_box) -> None:
    """Each sum needs both ends of the link, so none is made while it is cut."""
    settings = ("aggregation.protocol=additive", "privacy.mechanism=dp-sgd", "privacy.epsilon=8")
    box: Box = make_box(3, 300, *settings, "train.batch_size=4")
    box.network.slowest_s = SLOWEST_S
    box.start_all()
    box.run(lambda: all(node.has_aggregated(rounds=4, participants=3) for node in box.nodes))
    box.network.cut(1, 2)
    box.run_for(SETTLED_S)  # what has left before the cut may arrive yet
    third = box.nodes[0]
    charged, known = len(charges(third.folder)), [len(node.records) for node in box.nodes]
    box.run_for(CUT_S)
    assert len(charges(third.folder)) <= charged + 1
    assert [sums(node, since) for node, since in zip(box.nodes, known, strict=True)] == [[], [], []]

    box.network.heal()
    known = [len(node.records) for node in box.nodes]
    box.run_for(AFTER_S)
    for node, since in zip(box.nodes, known, strict=True):
        assert 3 in sums(node, since), node.number
