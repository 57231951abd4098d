"""Nodes with noise: each sees about how good the model is on all rows, and no counts go uncharged."""

from __future__ import annotations

import json

import pytest

from mechanisms.accounting.ledger import Gaussian
from protocol.wire.masked_messages import Masked, Release
from tests.box.box import STEPS, Box, BoxNode, own_rows
from tests.box.ledgers import charges
from tests.box.moments import Moment, dies
from tests.box.test_privacy import participants, to_one_model

PEERS, ROUNDS, EVERY, DEAD = 5, 2, 5, 3
COUNTED = (
    "aggregation.swarm_metric=sums",
    "aggregation.swarm_metric_every=1",
    "privacy.metric_share=0.5",
    "privacy.epsilon=3",
)
RUN = (f"train.steps={ROUNDS * EVERY}", f"train.report_every={EVERY}", "privacy.honest=2", *COUNTED)
RESERVED = 1
"""Counts beyond one in each round that the budget has, for sums that fail."""


def shared(make_box) -> Box:
    group = f"aggregation.min_participants={PEERS}"
    box: Box = make_box(PEERS, ROUNDS, *RUN, group, usual=STEPS, rows=own_rows)
    return box


def counted(node: BoxNode) -> list[int]:
    """Returns how many releases of counts each charge in a ledger has, in order."""
    return [sum(isinstance(event, Gaussian) for event in one.events) for one in charges(node.folder)]


def same_figures(nodes: list[BoxNode]) -> list[dict[str, object]]:
    """Returns the figures of all rounds, which all nodes have, but for their own value."""
    found = [[line["swarm"] for line in node.history] for node in nodes]
    for figures in zip(*found, strict=True):
        assert len({json.dumps({**figure, "mine": None}) for figure in figures if figure}) <= 1
    return found[0]


def is_within_budget(node: BoxNode) -> None:
    privacy = node.summary["privacy"]
    assert privacy["epsilon_spent"] <= privacy["epsilon_budget"] == 3.0


def test_all_see_about_the_metric_of_all_rows_beside_their_own(make_box) -> None:
    box = shared(make_box)
    box.start_all()
    to_one_model(box)
    for figure in same_figures(box.nodes):
        assert (figure["metric"], figure["noised"], figure["peers"]) == ("accuracy", True, PEERS)
        assert figure["rows"] == pytest.approx(360 * PEERS, abs=300)
        assert 0 < figure["error"] < 0.1
        assert figure["value"] == pytest.approx(figure["mine"], abs=6 * figure["error"])
    for node in box.nodes:
        assert counted(node) == [0, 0, 0, 0, 1] * ROUNDS
        assert node.summary["privacy"]["counts_charged"] == ROUNDS
        assert node.summary["swarm"] == node.history[-1]["swarm"]
        is_within_budget(node)


KILLS = {
    "charged-and-nothing-sent": (Moment(Masked, 1, EVERY), True),
    "some-have-its-counts": (Moment(Masked, 3, EVERY), False),
    "all-have-its-counts": (Moment(Masked, 4, EVERY, leaving=True), True),
    "charged-ahead-and-not-offered": (Moment(Release, 4, EVERY - 1, leaving=True), True),
}


@pytest.mark.sampled("some-have-its-counts")
@pytest.mark.parametrize(("moment", "power"), KILLS.values(), ids=KILLS)
def test_one_of_five_dies_around_its_counts(make_box, moment: Moment, power: bool) -> None:
    """What it was charged stands; its next counts have noise and a charge of their own; all figures agree."""
    box = shared(make_box)
    victim = box.nodes[DEAD]
    dies(victim, moment, power=power)
    before = counted(victim)
    assert before == [0, 0, 0, 0, 1], "on disk before anything of the offer has left"
    victim.start()
    to_one_model(box)
    assert counted(victim)[: len(before)] == before
    same_figures([node for node in box.nodes if node is not victim])
    for node in box.nodes:
        assert participants(box, node.number) == [PEERS] * ROUNDS
        failed = [line["steps_failed"] for line in node.history]
        assert failed in ([0] * ROUNDS, [RESERVED, *[0] * (ROUNDS - 1)])
        if node is not victim:
            assert counted(node) == [0, 0, 0, 0, 1, *[1] * failed[0], *[0, 0, 0, 0, 1] * (ROUNDS - 1)]
        assert sum(counted(node)) <= ROUNDS + RESERVED
        is_within_budget(node)


def test_with_dp_sgd_each_node_adds_all_of_its_noise(make_box) -> None:
    box = make_box(3, 3, "privacy.mechanism=dp-sgd", "train.batch_size=64", *COUNTED, rows=own_rows)
    box.start_all()
    to_one_model(box)
    for figure in same_figures(box.nodes):
        assert figure is not None
        assert (figure["noised"], figure["peers"]) == (True, 3)
        assert figure["rows"] == pytest.approx(360 * 3, abs=500)
    for node in box.nodes:
        assert counted(node) == [1, 1, 1]
        is_within_budget(node)
