"""One peer of a masked group is killed by pid at each step: the remaining ones end the round with one base.

Five peers tolerate one dropout. Until the joins are certified no masked vector has left a node, so a death
ends the round with every offer still fresh. From then on a death costs at most the dead node's own update.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.processes import Event
from tests.e2e.swarm import MASKED, Swarm, fact, frozen, history, nothing_twice, one_digest, rows

PEERS, ROUNDS, DEAD = 5, 16, 3
WIDE = ("model.args.sizes=[64,256,10]",)  # 77 kB: each chunk is added up by one member
WEIGHTED = ("aggregation.weighting=samples", "aggregation.sample_cap=1000")
PHASE_CAP_S = 15.0


@dataclass(frozen=True)
class Kill:
    """Where a peer dies in its second session; `spent`: whether its offer is spent then (None: undetermined).

    `members`: with how many the others can end that round; none: they fall back, with nothing spent.
    """

    name: str
    fate: Fate
    spent: bool | None
    members: tuple[int, ...]
    overrides: tuple[str, ...] = ()


def _at(kind: str, nth: int, moment: str = "before") -> Fate:
    return Fate(kind, nth=nth, session=2, moment=moment)  # type: ignore[arg-type]


KILLS = [
    Kill("no-join-sent", _at("Join", 1), False, (4,)),
    Kill("some-joins-sent", _at("Join", 3), False, (4,)),
    Kill("certificate-not-passed-on", _at("JoinCertificate", 1), None, (4,)),
    Kill("spent-and-nothing-sent", _at("Masked", 1), True, (4,)),
    Kill("some-have-its-vector", _at("Masked", 3), True, (4, 5)),
    Kill("all-have-its-vector", _at("Masked", 4, "after"), True, (4, 5)),
    Kill("some-releases-sent", _at("Release", 2), True, (5,)),
    Kill("reducer-sent-no-total", _at("Total", 1), True, (4, 5), WIDE),
    Kill("reducer-sent-some-totals", _at("Total", 3), True, (4, 5), WIDE),
    Kill("some-checks-sent", _at("Check", 2), True, (4, 5), WIDE),
]


@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.name)
def test_one_of_five_killed(make_swarm, tmp_path: Path, kill: Kill) -> None:
    swarm: Swarm = make_swarm(PEERS, ROUNDS, MASKED, *kill.overrides)
    offers = tmp_path / "offers"
    nodes = swarm.start_all({DEAD: Orders(fate=kill.fate, offers=offers)})
    victim, others = nodes[DEAD], [node for node in nodes if node is not nodes[DEAD]]
    assert victim.status() == -signal.SIGKILL
    died_in = victim.events("training")[-1]["round"]
    for node in others:
        node.event_after("round", lambda event: event["round"] > died_in)
    with frozen(others):
        _at_rest(swarm.out(DEAD), kill)
        again = swarm.start(DEAD, orders=Orders(offers=offers))
        again.event("training")  # it is dialling them: they hear of it before their rounds are over
    ends = [node.ends_well() for node in (*others, again)]
    one_digest(ends)
    for number in {*range(PEERS)} - {DEAD}:
        _went_on(history(swarm.out(number)), kill, died_in)
    assert len({_of_round(history(swarm.out(number)), died_in) for number in {*range(PEERS)} - {DEAD}}) == 1
    assert history(swarm.out(DEAD))[-1]["participants"] == PEERS
    nothing_twice(swarm.out(DEAD), offers)


def _at_rest(out: Path, kill: Kill) -> None:
    """Returns the state that a killed node left on its disk."""
    spent = rows(out, "select max(round) from ledger")[0][0] == fact(out, "round") + 1
    assert kill.spent in (None, spent)
    assert (fact(out, "fresh") is None, fact(out, "spent") is not None) == (spent, spent)


def _went_on(lines: list[Event], kill: Kill, died_in: int) -> None:
    """Checks that the round of the death ended, and that no round waited for a deadline."""
    (line,) = (line for line in lines if line["round"] == died_in)
    if kill.members:
        assert (line["reason"], line["missing"]) == (None, []), line
        assert line["participants"] in kill.members
    else:
        assert (line["reason"], line["participants"]) == ("joins-timeout", 0), line
    assert max(line["aggregate_s"] for line in lines) < PHASE_CAP_S - 5
    others = [line for line in lines if line["round"] != died_in]
    assert {line["reason"] for line in others} <= {None, "joins-timeout"}
    assert sum(line["reason"] is not None for line in others) <= 1, "as the dead one came back"
    assert lines[-1]["participants"] == PEERS


def _of_round(lines: list[Event], number: int) -> tuple[str | None, int, str]:
    """Returns the result of a round, which must be the same for all its members."""
    (line,) = (line for line in lines if line["round"] == number)
    return line["reason"], line["participants"], line["base_digest"]


@pytest.mark.parametrize("overrides", [(), (*WEIGHTED, *WIDE)], ids=["small", "wide and weighted"])
def test_a_peer_that_stands_still_is_left_behind_and_catches_up(
    make_swarm, overrides: tuple[str, ...]
) -> None:
    """It is stopped, not killed: nothing reports its absence; the others change the view and go on."""
    swarm: Swarm = make_swarm(PEERS, ROUNDS, MASKED, "aggregation.sums_timeout_s=8", *overrides)
    nodes = swarm.start_all({DEAD: Orders(fate=_stopped("Masked", 1))})
    others, still = [node for node in nodes if node is not nodes[DEAD]], nodes[DEAD]
    for node in others:
        line = node.event_after("round", lambda event: event["round"] == 2)
        assert (line["reason"], line["participants"]) == (None, PEERS - 1)
        assert line["aggregate_s"] < 8
    still.send(signal.SIGCONT)
    ends = [node.ends_well() for node in (*others, still)]
    one_digest(ends)
    assert all(end["aggregated"] >= ROUNDS - 1 for end in ends[:-1])
    assert history(swarm.out(DEAD))[-1]["round"] == ROUNDS
    ends_of_round = {_of_round(history(swarm.out(number)), 2) for number in range(PEERS)}
    assert len(ends_of_round) == 1, "it has the others' mean, without its own update"


def _stopped(kind: str, nth: int) -> Fate:
    return Fate(kind, nth=nth, session=2, sign=signal.SIGSTOP)


def test_weights_are_summed_behind_the_masks(make_swarm) -> None:
    """Also with one reducer per chunk, and by a certificate: the division is the same."""
    swarm: Swarm = make_swarm(PEERS, 4, MASKED, *WEIGHTED, *WIDE)
    nodes = swarm.start_all({DEAD: Orders(fate=_at("Release", 4, "after"))})
    others = [node for node in nodes if node is not nodes[DEAD]]
    assert nodes[DEAD].status() == -signal.SIGKILL
    for node in others:
        node.event("round", round=2)
    with frozen(others):
        again = swarm.start(DEAD)
        again.event("training")
    ends = [node.ends_well() for node in (*others, again)]
    one_digest(ends)
    assert all(end["fallbacks"] == 0 for end in ends[:-1])


def test_what_the_sums_withstand_is_told_at_the_start_and_when_the_group_is_another(make_swarm) -> None:
    swarm: Swarm = make_swarm(PEERS, 3, MASKED)
    nodes = [swarm.start(number) for number in range(PEERS - 1)]
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    for node, end in zip(nodes, ends, strict=True):
        assert node.event("started")["sums"] == (
            "masked sums of 5: tolerates 1 dropout; 3 of 5 peers would have to collude; 32-bit words, t = 4, "
            "f = 1, m = 2"
        )
        (told,) = node.events("sums")
        assert (told["protocol"], told["members"], told["dropouts"], told["colluders"]) == ("masked", 4, 0, 2)
        assert end["sums"] == {name: told[name] for name in end["sums"]}
