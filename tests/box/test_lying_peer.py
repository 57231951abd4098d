"""One of five nodes sends a large wrong update once, with and without the others' loss gates."""

from __future__ import annotations

import itertools

import numpy as np

from protocol.wire.messages import Ready
from tests.box.box import Box, BoxNode, own_rows
from tests.run_folders import fact

COUNT, ROUNDS, LIE = 5, 8, 4
LEARNING = (
    "train.epochs=2",
    "model.args.sizes=[64,16,10]",
    "aggregation.protocol=additive",
)
GATE = ("--set", "aggregation.loss_gate=0.3")


def lie_once(node: BoxNode) -> None:
    """Makes a running node replace one offer by a hundred times its opposite."""
    assert node.engine is not None
    contribution, count = node.engine._contribution, itertools.count(1)
    offer = contribution.offer
    contribution.offer = lambda: offer() * (-100 if next(count) == LIE else 1)


def started(make_box, rounds: int, *more: str) -> tuple[Box, list[BoxNode]]:
    """Starts all nodes, and returns the honest ones; `more` are the options of these alone."""
    box = make_box(COUNT, rounds, *LEARNING, rows=own_rows)
    *honest, liar = box.nodes
    liar.start()
    box.run(lambda: liar.engine is not None)
    lie_once(liar)
    for node in honest:
        node.start(*more)
    return box, honest


def ends(box: Box) -> list[float]:
    """Runs the box, checks that all ended with one base, and returns its accuracy after each round."""
    box.run_to_the_end()
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1
    return [line["accuracy"] for line in box.nodes[0].history]


def rolled_back(node: BoxNode) -> list[int]:
    """Returns the rounds in which a node's gate refused a base."""
    return [line["round"] for line in node.history if line["rolled_back"]]


def test_honest_peers_with_a_gate_lead_the_swarm_back(make_box) -> None:
    box, honest = started(make_box, ROUNDS, *GATE)
    accuracy = ends(box)
    assert accuracy[LIE - 1] < 0.5, "the base that was agreed stays agreed"
    assert accuracy[-1] > 0.9
    assert rolled_back(box.nodes[-1]) == [], "it has chosen no gate"
    for node in honest:
        assert rolled_back(node) == [LIE, LIE + 1]
        lowest, loss = node.history[LIE - 1]["rolled_back"]
        assert lowest + 0.3 < loss
        assert node.has_said("rolled back: loss on own rows")


def test_without_gates_the_lie_costs_rounds(make_box) -> None:
    box, _ = started(make_box, ROUNDS - 1)
    assert ends(box)[-1] < 0.75
    assert [rolled_back(node) for node in box.nodes] == [[]] * COUNT


def test_a_peer_killed_after_it_refused_a_base_still_has_the_last_good_one(make_box) -> None:
    box, honest = started(make_box, ROUNDS + 1, *GATE)
    killed = honest[1]
    killed.before_message(killed.kill, "out", Ready, fits=lambda _: killed.has_said("rolled back"))
    box.run(lambda: killed.is_over)
    good, base = fact(killed.folder, "good"), fact(killed.folder, "base_file")
    assert good != base
    assert fact(killed.folder, "judged") in fact(killed.folder, "base")
    last_good = np.fromfile(killed.folder / "vectors" / f"{good}.f32", dtype="<f4")
    killed.start(*GATE)
    box.run(lambda: killed.engine is not None)
    state = killed.engine._state
    assert np.array_equal(state.way_back, last_good - state.base_vector), "it goes on from the last good base"
    assert ends(box)[-1] > 0.9
