"""One peer of a masked group killed, by its pid, in each step: whoever is left ends the round, with one base.

Five peers tolerate one dropout. Until the joins are certified nothing has left a node, and a death ends the
round, with every offer still fresh; from then on a death costs at most the dead one's own update.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.swarm import MASKED, Swarm, fact, frozen, history, one_digest, rows, summary

PEERS, ROUNDS, DEAD = 5, 8, 3
WIDE = ("model.args.sizes=[64,256,10]",)  # 77 kB: each chunk is added up by one member
PHASE_CAP_S = 15.0


@dataclass(frozen=True)
class Kill:
    """Where a peer dies in its second session; `spent`: whether its offer is by then (None: it may be).

    `ends`: whether the others come to a mean all the same (None: they may, or to nobody's).
    """

    name: str
    fate: Fate
    spent: bool | None
    ends: bool | None
    overrides: tuple[str, ...] = ()


def _at(kind: str, nth: int, moment: str = "before") -> Fate:
    return Fate(kind, nth=nth, session=2, moment=moment)  # type: ignore[arg-type]


KILLS = [
    Kill("no-join-sent", _at("Join", 1), False, False),
    Kill("some-joins-sent", _at("Join", 3), False, False),
    Kill("all-joins-sent", _at("Join", 4, "after"), None, None),
    Kill("certificate-not-passed-on", _at("JoinCertificate", 1), False, True),
    Kill("spent-and-nothing-sent", _at("Masked", 1), True, True),
    Kill("some-have-its-vector", _at("Masked", 3), True, True),
    Kill("all-have-its-vector", _at("Masked", 4, "after"), True, True),
    Kill("not-acknowledged", _at("Ack", 1), True, True),
    Kill("some-releases-sent", _at("Release", 2), True, True),
    Kill("all-releases-sent", _at("Release", 4, "after"), True, True),
    Kill("reducer-sent-no-total", _at("Total", 1), True, True, WIDE),
    Kill("reducer-sent-some-totals", _at("Total", 3), True, True, WIDE),
    Kill("some-checks-sent", _at("Check", 2), True, True, WIDE),
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
        again.event("started")
    ends = [node.ends_well() for node in (*others, again)]
    one_digest(ends)
    print(kill.name, [[(l["round"], l["reason"], l["participants"], round(l["aggregate_s"],1)) for l in history(swarm.out(n))[died_in-1:died_in+2]] for n in range(PEERS)])


def _at_rest(out: Path, kill: Kill) -> None:
    ledger = rows(out, "select sid, round from ledger order by round")
    print(kill.name, ledger and ledger[-1][1], fact(out, "round"), fact(out, "fresh") is None, fact(out, "spent") is None)
