"""Nodes with shared noise: one secure sum a step. A peer dies anywhere; all stop; one comes late.

Five peers, of whom one may fall silent. A sum counts only with every member in it, so a death costs at most
the step it strikes: its charge, at those who had offered. The model is as it was, and the swarm goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from protocol.wire.masked_messages import Check, Join, JoinCertificate, Masked, Release, Total
from tests.box.box import STEPS, Box, BoxNode
from tests.box.ledgers import charges
from tests.box.moments import Moment, dies
from tests.box.test_privacy import participants, to_one_model
from tests.cases import soak
from tests.run_folders import fact

PEERS, ROUNDS, EVERY, DEAD = 5, 3, 5, 3
WIDE = ("model.args.sizes=[64,256,10]",)  # 77 kB: each chunk is added up by one member
RUN = (
    f"train.steps={ROUNDS * EVERY}",
    f"train.report_every={EVERY}",
    "privacy.honest=2",
    "privacy.epsilon=3",
)


@dataclass(frozen=True)
class Kill:
    """Where a peer dies in its `step`, and how many steps are charged to it by then.

    The members join in the first step of a run, that is, of each round. The other steps begin with vectors.
    A step's vote carries the charge of the next one, except in the last step of a run.
    """

    name: str
    moment: Moment
    charged: int
    overrides: tuple[str, ...] = ()


ALL_ROUNDS = [(number, PEERS) for number in range(1, ROUNDS + 1)]
NEXT = EVERY + 1
"""The first step of the second run."""


KILLS = [
    Kill("no-join-sent", Moment(Join, 1, NEXT), EVERY),
    Kill("some-joins-sent", Moment(Join, 3, NEXT), EVERY),
    Kill("certificate-not-passed-on", Moment(JoinCertificate, 1, NEXT), EVERY),
    Kill("charged-and-nothing-sent", Moment(Masked, 1, 3), 3),
    Kill("some-have-its-vector", Moment(Masked, 3, 3), 3),
    Kill("all-have-its-vector", Moment(Masked, 4, 3, leaving=True), 3),
    Kill("some-releases-sent", Moment(Release, 2, 3), 4),
    Kill("reducer-sent-some-totals", Moment(Total, 3, 3), 3, WIDE),
    Kill("some-checks-sent", Moment(Check, 2, 3), 3, WIDE),
    Kill("voted-in-the-first-step", Moment(Release, 4, 1, leaving=True), 2),
    Kill("voted-in-the-last-step", Moment(Release, 4, EVERY, leaving=True), EVERY),
]


def steps_box(make_box, *overrides: str, peers: int = PEERS, least: int = PEERS) -> Box:
    group = f"aggregation.min_participants={least}"
    box: Box = make_box(peers, ROUNDS, *RUN, group, *overrides, usual=STEPS)
    return box


OF_POWER = KILLS[2:-1:2]
OF_A_PROCESS = KILLS[3:-1:2]
DEATHS = [
    *(pytest.param(kill, False, id=kill.name) for kill in OF_A_PROCESS),
    *(pytest.param(kill, True, id=f"{kill.name}-and-power-lost") for kill in OF_POWER),
    *(soak(kill, False, name=kill.name) for kill in KILLS if kill not in OF_A_PROCESS),
]


@pytest.mark.sampled("charged-and-nothing-sent")
@pytest.mark.parametrize(("kill", "power"), DEATHS)
def test_one_of_five_dies(make_box, kill: Kill, power: bool) -> None:
    box = steps_box(make_box, *kill.overrides)
    victim = box.nodes[DEAD]
    dies(victim, kill.moment, power=power)
    assert len(charges(victim.folder)) == kill.charged
    victim.start()
    to_one_model(box)
    for node in box.nodes:
        failed = sum(line["steps_failed"] for line in node.history)
        lost = ROUNDS * EVERY - sum(line["steps"] for line in node.history)
        assert [(line["round"], line["participants"]) for line in node.history] == ALL_ROUNDS
        assert failed <= 1, "the step that the death strikes"
        assert lost == 0 or (node is victim and lost == 1), "the others ended one that the dead had voted for"
        if node is not victim:
            assert len(charges(node.folder)) == ROUNDS * EVERY + failed
        _booked(node)
    assert len(charges(victim.folder)) <= ROUNDS * EVERY + 1


def _booked(node: BoxNode) -> None:
    """Checks that the budget holds, and that no offer is left to be made."""
    privacy = node.summary["privacy"]
    assert node.summary["finished"]
    assert privacy["epsilon_spent"] <= privacy["epsilon_budget"] == 3.0
    assert privacy["epsilon_alone"] > privacy["epsilon_spent"]
    assert (fact(node.folder, "fresh"), fact(node.folder, "spent")) == (None, None)


@pytest.mark.sampled
def test_all_stopped_one_by_one_and_started_again_take_every_step_once(make_box) -> None:
    box = steps_box(make_box)
    box.start_all()
    box.run(until=box.nodes[0].has_aggregated)
    for node in box.nodes:
        node.tell_to_end()
        box.run(until=lambda node=node: node.is_over)
    assert [len(charges(node.folder)) for node in box.nodes] == [EVERY] * PEERS
    box.start_all()
    to_one_model(box)
    for node in box.nodes:
        assert [(line["round"], line["participants"]) for line in node.history] == ALL_ROUNDS
        assert [(line["steps"], line["steps_failed"]) for line in node.history] == [(EVERY, 0)] * ROUNDS
        assert len(charges(node.folder)) == ROUNDS * EVERY
        _booked(node)


def test_who_comes_late_follows_and_takes_part_with_its_rows(make_box) -> None:
    box = steps_box(make_box, least=PEERS - 1)
    late, others = box.nodes[-1], box.nodes[:-1]
    for node in others:
        node.start()
    box.run(until=others[0].has_aggregated)
    late.start()
    to_one_model(box)
    assert [participants(box, node.number) for node in others] == [[4, 4, 5]] * 4
    assert [(line["steps"], line["participants"]) for line in late.history] == [(0, 0), (0, 0), (5, 5)]
    assert len(charges(late.folder)) == EVERY


def test_groups_of_three_add_shares_and_share_their_noise(make_box) -> None:
    box = make_box(3, ROUNDS, *RUN[:2], usual=STEPS)
    box.start_all()
    to_one_model(box)
    for node in box.nodes:
        assert node.summary["privacy"]["honest"] == 1
        assert [line["steps"] for line in node.history] == [EVERY] * ROUNDS
        assert participants(box, node.number) == [3] * ROUNDS


def test_a_member_with_another_mechanism_or_assumption_is_refused_in_one_line(make_box) -> None:
    box = steps_box(make_box, peers=3, least=3)
    *others, refused = box.nodes
    for node in others:
        node.start()
    box.run_for(1.0)
    refused.start("--set", "privacy.honest=1")
    box.run(until=lambda: refused.is_over)
    assert refused.status == 2
    assert "privacy.honest" in refused.lines[-1]
    assert "\n" not in refused.lines[-1]
    assert all(node.is_up for node in others)
