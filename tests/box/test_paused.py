"""A laptop stands still for ten minutes: the others go on, it spends nothing meanwhile, and it comes back."""

from __future__ import annotations

import pytest

from node.runtime.record.events import RoundStarted
from protocol.wire.masked_messages import Join, JoinCertificate
from protocol.wire.messages import Accepted, Message
from tests.box.box import Box, BoxNode
from tests.box.conftest import MakeBox
from tests.box.ledgers import charges
from tests.cases import soaks

TRAINS_S = 40.0
TEN_MINUTES_S = 600.0
SUMS_S = 15.0
"""aggregation.sums_timeout_s: sums that wait for one who stands still take no longer."""


def swarm(make_box: MakeBox, count: int) -> Box:
    """Starts nodes with a privacy budget, which train for a while; returns when all were in a sum."""
    with_budget = ("privacy.mechanism=dp-sgd", "privacy.epsilon=8", "train.batch_size=4", "train.rounds=1000")
    box = make_box(count, 1000, *with_budget, options=("--wait", "forever"))
    box.loop.lasts_s = lambda name: TRAINS_S if name == "_train" else 0.0
    box.start_all()
    box.run(lambda: all(node.has_aggregated(2) for node in box.nodes))
    return box


def spent(box: Box) -> list[tuple[int, int]]:
    """Returns how many rounds each node has ended, and how many offers it was charged for."""
    return [(len(node.records), len(charges(node.folder))) for node in box.nodes]


def pause(box: Box, node: BoxNode, moment: type[Message] | None) -> None:
    """Stops a node as it begins to train, or in the middle of a message."""
    stopped: list[BoxNode] = []

    def stop() -> None:
        node.pause()
        stopped.append(node)

    if moment is None:
        node.when(stop, RoundStarted)
    else:
        node.before_message(stop, "any", moment)
    box.run(lambda: bool(stopped))


def all_in_a_sum(box: Box) -> None:
    """Waits until a new sum has all nodes."""
    known = [len(node.records) for node in box.nodes]
    box.run(
        lambda: all(
            any(record.participants == box.count for record in node.records[old:])
            for node, old in zip(box.nodes, known, strict=True)
        ),
        within_s=300.0,
    )


@pytest.mark.sampled("training")
@pytest.mark.parametrize(
    "moment",
    [None, JoinCertificate, *soaks((Accepted, Join))],
    ids=lambda moment: "training" if moment is None else moment.__name__,
)
def test_of_four_three_go_on_within_one_timeout_and_it_is_in_a_later_sum(
    make_box, moment: type[Message] | None
) -> None:
    box = swarm(make_box, 4)
    *others, still = box.nodes
    pause(box, still, moment)
    before = spent(box)
    box.run_for(TEN_MINUTES_S)
    for node, (known, _) in zip(others, before, strict=False):
        since = node.records[known:]
        assert sum(record.reason is not None for record in since) <= 1
        assert sum(record.participants == 3 for record in since) > 0.8 * TEN_MINUTES_S / (TRAINS_S + 1)
        assert max(record.aggregate_s for record in since) <= SUMS_S + 1
    assert spent(box)[-1] == before[-1]

    still.go_on()
    all_in_a_sum(box)
    known, charged = before[-1]
    failed = [record.reason for record in still.records[known:] if record.reason is not None]
    assert len(failed) <= (moment is JoinCertificate), "a sum under way, for which its vector had left"
    assert len(charges(still.folder)) == charged + len(still.records) - known


def test_of_three_nobody_goes_on_and_nobody_spends_anything(make_box) -> None:
    box = swarm(make_box, 3)
    still = box.nodes[1]
    pause(box, still, None)
    box.run_for(TRAINS_S)
    before = spent(box)
    box.run_for(TEN_MINUTES_S)
    assert spent(box) == before
    still.go_on()
    all_in_a_sum(box)
    assert all(record.reason is None for node in box.nodes for record in node.records)
