"""One of five nodes joins every sum and then withholds its part: it is named and left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.wire.masked_messages import Join, JoinCertificate, Joined, MaskedMessage
from tests.box.box import STEPS, BoxNode, own_rows
from tests.cases import soak

PEERS, ROUNDS, EVERY, LEFT_OUT = 5, 6, 5, 4
SPOILED = [1, 1, *[0] * LEFT_OUT]
"""The steps that fail in each round: the first of all, and one when it is back after the next."""
RUN = (
    f"train.steps={ROUNDS * EVERY}",
    f"train.report_every={EVERY}",
    "privacy.honest=2",
    "privacy.epsilon=3",
    "aggregation.min_participants=4",
)


def withhold(node: BoxNode) -> None:
    """Makes a running node send nothing of what comes after a Joined."""
    assert node.engine is not None
    transport, setup = node.engine.transport, (Join, Joined, JoinCertificate)
    send = transport.send

    def sending(endpoint, messages, bulk=False):
        if all(isinstance(one, setup) or not isinstance(one, MaskedMessage) for one in messages):
            send(endpoint, messages, bulk)

    transport.send = sending


SEEDS = [(0, 1), (3, 8)]
"""(who is silent, seed): 0 coordinates. In these one member's others give up a moment before it."""
MORE = [(silent, seed) for silent in (0, 3) for seed in range(1, 9) if (silent, seed) not in SEEDS]


@pytest.mark.sampled
@pytest.mark.parametrize(("silent", "seed"), [*SEEDS, *(soak(*each) for each in MORE)])
def test_a_peer_that_withholds_costs_few_steps_and_is_named(
    make_box, tmp_path: Path, silent: int, seed: int
) -> None:
    box = make_box(PEERS, ROUNDS, *RUN, usual=STEPS, rows=own_rows, seed=seed)
    lying = box.nodes[silent]
    others = [node for node in box.nodes if node is not lying]
    names = tmp_path / "names"
    names.write_text(f"ward b = {lying.key.public.hex()}\n")
    lying.start()
    box.run(lambda: lying.engine is not None)
    withhold(lying)
    for node in others:
        node.start("--names", str(names))
    named = f"ward b did not send its masked vector, and the sum failed: left out for {LEFT_OUT} rounds"
    box.run(lambda: all(node.has_said(named) for node in others))
    assert {node.engine.inspector.troubles["left_out"] for node in others} == {
        "1 peer withheld what was due to sums, and is left out for a while"
    }
    box.run(lambda: all(node.is_over for node in others))
    for node in others:
        assert [(line["participants"], line["steps"]) for line in node.history] == [
            (PEERS - 1, EVERY)
        ] * ROUNDS
        assert [line["steps_failed"] for line in node.history] == SPOILED
        assert node.summary["offers"] == ROUNDS * EVERY + sum(SPOILED)
        assert node.summary["privacy"]["epsilon_spent"] <= 3.0
    assert len({node.summary["base_digest"] for node in others}) == 1
