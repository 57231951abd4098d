"""Real nodes with shared noise: one secure sum a step. A peer dies anywhere; all stop; one comes late.

Five peers, of whom one may fall silent. A sum counts only with every member in it, so a death costs at most
the step it strikes: its charge, at those who had offered. The model is as it was, and the swarm goes on.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.swarm import STEPS, Swarm, fact, frozen, history, one_digest, rows, summary

PEERS, ROUNDS, EVERY, DEAD = 5, 4, 5, 3
WIDE = ("model.args.sizes=[64,256,10]",)  # 77 kB: each chunk is added up by one member
RUN = (
    f"train.steps={ROUNDS * EVERY}",
    f"train.report_every={EVERY}",
    "privacy.honest=2",
    "privacy.epsilon=3",
)


@dataclass(frozen=True)
class Kill:
    """Where a peer dies in its `step`, and how many steps are charged to it by then (None: undetermined).

    The members join in the first step of a run, that is, of each round. The other steps begin with vectors.
    A step's vote carries the charge of the next one, except in the last step of a run.
    """

    name: str
    fate: Fate
    charged: int | None
    overrides: tuple[str, ...] = ()
    step: int = 3


def _at(kind: str, nth: int, moment: str = "before", step: int = 3) -> Fate:
    return Fate(kind, nth=nth, session=step, moment=moment)  # type: ignore[arg-type]


NEXT = EVERY + 1
"""The first step of the second run."""


KILLS = [
    Kill("computing-a-gradient", Fate("train", nth=3), 3),
    Kill("no-join-sent", _at("Join", 1, step=NEXT), EVERY, step=NEXT),
    Kill("some-joins-sent", _at("Join", 3, step=NEXT), EVERY, step=NEXT),
    Kill("certificate-not-passed-on", _at("JoinCertificate", 1, step=NEXT), None, step=NEXT),
    Kill("charged-and-nothing-sent", _at("Masked", 1), 3),
    Kill("some-have-its-vector", _at("Masked", 3), 3),
    Kill("all-have-its-vector", _at("Masked", 4, "after"), 3),
    Kill("some-releases-sent", _at("Release", 2), 4),
    Kill("reducer-sent-some-totals", _at("Total", 3), 3, WIDE),
    Kill("some-checks-sent", _at("Check", 2), 3, WIDE),
    Kill("voted-in-the-first-step", _at("Release", 4, "after", step=1), 2, step=1),
    Kill("voted-in-the-last-step", _at("Release", 4, "after", step=EVERY), EVERY, step=EVERY),
]


def steps_swarm(make_swarm, *overrides: str, peers: int = PEERS, least: int = 4) -> Swarm:
    group = f"aggregation.min_participants={least}"
    swarm: Swarm = make_swarm(peers, ROUNDS, *RUN, group, *overrides, usual=STEPS)
    return swarm


@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.name)
def test_one_of_five_killed(make_swarm, tmp_path: Path, kill: Kill) -> None:
    swarm, offers = steps_swarm(make_swarm, *kill.overrides), tmp_path / "offers"
    nodes = swarm.start_all({DEAD: Orders(fate=kill.fate, offers=offers)})
    victim, others = nodes[DEAD], [node for node in nodes if node is not nodes[DEAD]]
    assert victim.status() == -signal.SIGKILL
    charged = len(rows(swarm.out(DEAD), "select sid from ledger"))
    assert kill.charged in (None, charged)
    others[0].event("round", round=(kill.step - 1) // EVERY + 1)
    with frozen(others):
        again = swarm.start(DEAD, orders=Orders(offers=offers))
        again.event("training")
    ends = [node.ends_well() for node in (*others, again)]

    one_digest(ends)
    for number in range(PEERS):
        _booked(swarm.out(number))
    _nothing_twice(swarm.out(DEAD), offers)
    lines = [line for number in {*range(PEERS)} - {DEAD} for line in history(swarm.out(number))]
    assert max(line["steps_failed"] for line in lines) <= 2, "the death, and perhaps the return"
    for number in range(1, ROUNDS + 1):  # a node that starts late may miss its first steps
        assert max(line["steps"] for line in lines if line["round"] == number) == EVERY


def _booked(out: Path) -> None:
    """Every charge is a step of the history or a sum that failed, and the budget holds."""
    lines, end = history(out), summary(out)
    assert [line["round"] for line in lines] == sorted({line["round"] for line in lines})
    assert lines[-1]["round"] == ROUNDS
    assert end["finished"]
    charged = len(rows(out, "select sid from ledger"))
    assert charged <= ROUNDS * EVERY + sum(line["steps_failed"] for line in lines) + 1, (
        "one of a killed process"
    )
    assert end["privacy"]["epsilon_spent"] <= end["privacy"]["epsilon_budget"] == 3.0
    assert end["privacy"]["epsilon_alone"] > end["privacy"]["epsilon_spent"]
    assert fact(out, "fresh") is None
    assert fact(out, "spent") is None


def _nothing_twice(out: Path, offers: Path) -> None:
    """No words and no session were offered twice over both lives, and each offer has a charge of its own.

    At most one charge was never used: that of the step after the last vote of the first life.
    """
    sids, words = zip(*(line.split() for line in offers.read_text().splitlines()), strict=True)
    assert len(set(sids)) == len(sids)
    assert len(set(words)) == len(words)
    assert 0 <= len(rows(out, "select sid from ledger")) - len(sids) <= 1


def test_all_stopped_one_by_one_and_started_again_take_every_step_once(make_swarm) -> None:
    swarm = steps_swarm(make_swarm)
    nodes = swarm.start_all()
    nodes[0].event("round", round=1)
    for node in nodes:
        node.send(signal.SIGTERM)
        node.status()
    before = {number: fact(swarm.out(number), "base") for number in range(PEERS)}
    ends = [node.ends_well() for node in swarm.start_all()]

    assert all(before.values())
    one_digest(ends)
    for number in range(PEERS):
        lines = history(swarm.out(number))
        assert sum(line["steps"] for line in lines) <= ROUNDS * EVERY
        _booked(swarm.out(number))


def test_who_comes_late_follows_and_takes_part_with_its_rows(make_swarm) -> None:
    swarm = steps_swarm(make_swarm)
    nodes = [swarm.start(number) for number in range(PEERS - 1)]
    nodes[0].event("round", round=1)
    with frozen(nodes):
        late = swarm.start(PEERS - 1)
        late.event("training")
    ends = [node.ends_well() for node in (*nodes, late)]

    one_digest(ends)
    lines = history(swarm.out(PEERS - 1))
    assert lines[-1]["participants"] == PEERS
    assert 0 < sum(line["steps"] for line in lines) < ROUNDS * EVERY


def test_groups_of_three_add_shares_and_share_their_noise(make_swarm) -> None:
    swarm: Swarm = make_swarm(3, ROUNDS, *RUN[:2], usual=STEPS)
    ends = [node.ends_well() for node in swarm.start_all()]

    one_digest(ends)
    assert {end["privacy"]["honest"] for end in ends} == {1}
    assert all(line["steps"] == EVERY for line in history(swarm.out(0)))


def test_a_member_with_another_mechanism_or_assumption_is_refused_in_one_line(make_swarm) -> None:
    swarm = steps_swarm(make_swarm, peers=3, least=3)
    others = [swarm.start(0), swarm.start(1)]
    for node in others:
        node.event("training")
    said = swarm.start(2, "--set", "privacy.honest=1").fails(2)

    assert "privacy.honest" in said
    assert "\n" not in said.strip()
    for node in others:
        node.kill()
