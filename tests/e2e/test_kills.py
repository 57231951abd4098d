"""One of five real nodes with additive shares is killed by pid after it has spent its vector.

The others have voted for a sum that needs the dead node's, so they wait until it is back.
All other steps of a round, and which vectors were spent: tests/box/test_kills.py.
"""

from __future__ import annotations

import signal

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.swarm import ADDITIVE, Swarm, one_digest
from tests.run_folders import fact, rows, summary

VICTIM = 3


def test_a_node_killed_with_its_vector_spent_comes_back_and_spends_nothing_twice(make_swarm) -> None:
    swarm: Swarm = make_swarm(5, 5, ADDITIVE)
    nodes = swarm.start_all({VICTIM: Orders(fate=Fate("Sum", session=2))})
    victim = nodes.pop(VICTIM)
    assert victim.status() == -signal.SIGKILL
    out = swarm.out(VICTIM)
    assert rows(out, "select max(round) from ledger") == [(fact(out, "round") + 1,)]
    assert (fact(out, "fresh") is None, fact(out, "spent") is None) == (True, False)
    one_digest([node.ends_well() for node in (*nodes, swarm.start(VICTIM))])
    ledger = rows(out, "select sid, round from ledger")
    assert len({sid for sid, _ in ledger}) == len({round for _, round in ledger}) == len(ledger)
    assert summary(out)["offers"] == len(ledger)
