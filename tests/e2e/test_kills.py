"""One of five nodes with additive shares is killed by pid in each phase; the tracker is killed; peers stop.

The others end the round without waiting for a deadline, finish the run and end with one base; if their votes
need the dead node's answer, they wait until it is back. The killed node restarts in the same folder, catches
up, ends with the same base, and never repeats an offer.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import ADDITIVE, Swarm, fact, frozen, history, nothing_twice, one_digest, rows, summary

ROUNDS = 10
COORDINATOR, MEMBER = 0, 3
PHASE_CAP_S = 15.0  # of shares and of sums, until three rounds went well: nobody waits that long for the dead


@dataclass(frozen=True)
class Kill:
    """Where a peer dies, and whether its vector is spent by then (None: undetermined).

    It is spent once the shares of all others are there, whether or not its own have left.

    `binds`: by their sums the others have voted for a result that needs the dead node's sum, which nobody
    else has. Only that node may know the result, so the others wait for it, and say so.
    """

    name: str
    who: int
    fate: Fate
    spent: bool | None
    binds: bool = False


KILLS = [
    Kill("training", MEMBER, Fate("train", nth=3), False),
    Kill("ready-held-by-the-coordinator", MEMBER, Fate("Accepted", session=2, way="in"), False),
    Kill("group-came", MEMBER, Fate("Group", session=2, way="in"), False),
    Kill("no-share-sent", MEMBER, Fate("Share", nth=1, session=2), None),
    Kill("one-share-sent", MEMBER, Fate("Share", nth=2, session=2), None),
    Kill("all-shares-sent", MEMBER, Fate("Share", nth=4, session=2, moment="after"), None, binds=True),
    Kill("spent-and-no-sum-sent", MEMBER, Fate("Sum", nth=1, session=2), True, binds=True),
    Kill("some-sums-sent", MEMBER, Fate("Sum", nth=3, session=2), True),
    Kill("all-sums-sent", MEMBER, Fate("Sum", nth=4, session=2, moment="after"), True),
    Kill("coordinator-training", COORDINATOR, Fate("train", nth=3), False),
    Kill("coordinator-took-readys", COORDINATOR, Fate("Accepted", nth=7), False),
    Kill("coordinator-sent-half-of-the-groups", COORDINATOR, Fate("Group", nth=7), False),
    Kill("coordinator-one-share-sent", COORDINATOR, Fate("Share", nth=2, session=2), None),
    Kill("coordinator-spent-and-no-sum-sent", COORDINATOR, Fate("Sum", nth=1, session=2), True, binds=True),
    Kill("coordinator-some-sums-sent", COORDINATOR, Fate("Sum", nth=3, session=2), True),
    Kill("coordinator-all-sums-sent", COORDINATOR, Fate("Sum", nth=4, session=2, moment="after"), True),
]


@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.name)
def test_one_of_five_killed(make_swarm, tmp_path: Path, kill: Kill) -> None:
    swarm: Swarm = make_swarm(5, ROUNDS, ADDITIVE)
    offers = tmp_path / "offers"
    nodes = swarm.start_all({kill.who: Orders(fate=kill.fate, offers=offers)})
    victim = nodes[kill.who]
    others = [node for node in nodes if node is not victim]
    assert victim.status() == -signal.SIGKILL
    died_in = victim.events("training")[-1]["round"]
    for node in others:
        node.event_after("round", lambda event: event["round"] > died_in - kill.binds)
    with frozen(others):
        _at_rest(swarm.out(kill.who), kill, offers)
        again = swarm.start(kill.who, orders=Orders(offers=offers))
        again.event("training")
    ends = [node.ends_well() for node in (*others, again)]
    one_digest(ends)
    if not kill.binds:
        _nobody_waited_for_the_dead(swarm, kill.who, died_in)
    _caught_up(swarm, kill.who, died_in)
    nothing_twice(swarm.out(kill.who), offers)


def _at_rest(out: Path, kill: Kill, offers: Path) -> None:
    """Returns the state that a killed node left on its disk."""
    noted = offers.read_text().splitlines() if offers.exists() else []
    ledger = rows(out, "select sid, round from ledger order by round")
    assert {line.split()[0] for line in noted} == {sid.hex() for sid, _ in ledger}
    if kill.spent is True:
        assert ledger[-1][1] == fact(out, "round") + 1
        assert fact(out, "fresh") is None
        assert fact(out, "spent") is not None
    if kill.spent is False:
        assert len(ledger) == fact(out, "round")
        assert fact(out, "spent") is None


def _nobody_waited_for_the_dead(swarm: Swarm, dead: int, died_in: int) -> None:
    """The system reports at once that a process is gone, so no round waited for a deadline.

    A node that did not receive the GROUP with the dead node may skip that round's number.
    """
    for number in {*range(swarm.count)} - {dead}:
        lines = history(swarm.out(number))
        numbers = [line["round"] for line in lines]
        assert numbers == sorted(set(numbers))
        assert numbers[0] <= died_in, "a node that started late may miss the first rounds"
        assert numbers[-1] == ROUNDS
        assert max(line["aggregate_s"] for line in lines) < PHASE_CAP_S - 5
        assert {line["reason"] for line in lines} <= {None, "shares-timeout", "sums-timeout"}
        # The round of the death, and the one in which a lower key comes back and takes over the coordination.
        assert sum(line["reason"] is not None for line in lines) <= 2
        assert next(line for line in lines if line["round"] > died_in)["participants"] >= 3


def _caught_up(swarm: Swarm, number: int, died_in: int) -> None:
    lines = history(swarm.out(number))
    after = [line for line in lines if line["round"] > died_in]
    assert after[-1]["round"] == ROUNDS
    assert after[-1]["participants"] == 5
    numbers = [line["round"] for line in lines]
    assert numbers == sorted(set(numbers))


def test_the_tracker_killed_and_started_again(make_swarm, nursery: Nursery) -> None:
    where = free_endpoint()
    tracker = nursery.tracker("--listen", where)
    tracker.line("at http://")
    swarm = make_swarm(3, 8, tracker=where)
    nodes = swarm.start_all()
    nodes[0].event("round", round=2)
    tracker.send(signal.SIGKILL)
    assert tracker.status() == -signal.SIGKILL
    nodes[1].line(f"{where} cannot be reached")
    again = nursery.tracker("--listen", where)
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    assert all(end["aggregated"] == 8 for end in ends)
    for endpoint in swarm.endpoints:
        again.line(f"{endpoint} is here")


def test_a_peer_that_stands_still_is_waited_for_until_the_deadline_only(make_swarm) -> None:
    """It is stopped, not killed: its sockets stay open, and nothing reports that it is gone."""
    caps = ("aggregation.shares_timeout_s=2", "aggregation.sums_timeout_s=2")
    swarm = make_swarm(4, 9, ADDITIVE, *caps)
    stops = Fate("Share", nth=1, session=4, sign=signal.SIGSTOP)
    nodes = swarm.start_all({3: Orders(fate=stops)})
    others, still = nodes[:3], nodes[3]
    for node in others:
        failed = node.event("round", outcome="fallback")
        assert (failed["round"], failed["reason"]) == (4, "shares-timeout")
        assert failed["missing"] == [swarm.keys[3].hex()[:16]]
        assert 1.5 < failed["aggregate_s"] < 6
        assert node.event("round", round=5)["participants"] == 3
    still.send(signal.SIGCONT)
    ends = [node.ends_well() for node in (*others, still)]
    one_digest(ends)
    assert history(swarm.out(3))[-1]["participants"] == 4
    assert all(end["fallbacks"] == 1 for end in ends)


def test_a_peer_that_leaves_is_not_waited_for(make_swarm) -> None:
    swarm = make_swarm(4, 8)
    nodes = swarm.start_all()
    nodes[3].event("round", round=3)
    nodes[3].send(signal.SIGINT)
    assert nodes[3].status() == 130
    left_after = summary(swarm.out(3))["rounds"]
    one_digest([node.ends_well() for node in nodes[:3]])
    for number, node in enumerate(nodes[:3]):
        assert node.line(f"{swarm.endpoints[3]} has left")
        later = [line for line in history(swarm.out(number)) if line["round"] > left_after + 1]
        assert all(line["participants"] == 3 for line in later)
        assert median(line["aggregate_s"] for line in later) < 1.0  # the shortest wait for one not READY


def test_who_comes_back_to_nobody_ends_after_one_round_of_its_own(make_swarm, tmp_path: Path) -> None:
    """The others have finished without it and are gone, so there is nothing to wait for."""
    swarm: Swarm = make_swarm(4, 5, ADDITIVE, "aggregation.group_timeout_s=4")
    offers = tmp_path / "offers"
    nodes = swarm.start_all({MEMBER: Orders(fate=Fate("train", nth=3), offers=offers)})
    victim, others = nodes[MEMBER], [node for node in nodes if node is not nodes[MEMBER]]
    assert victim.status() == -signal.SIGKILL
    one_digest([node.ends_well() for node in others])
    line = swarm.start(MEMBER, orders=Orders(offers=offers)).fails(1)
    assert "nobody of this swarm is there any more: every connection was refused for 4 s" in line
    assert "after round 3 of 5" in line
    told = history(swarm.out(MEMBER))
    assert [(each["round"], each["reason"]) for each in told] == [(1, None), (2, None), (3, "group-timeout")]
    ended = summary(swarm.out(MEMBER))
    assert (ended["rounds"], ended["finished"], ended["offers"]) == (3, False, 2)
    assert ended["base_digest"] == told[-1]["base_digest"]
    nothing_twice(swarm.out(MEMBER), offers)
