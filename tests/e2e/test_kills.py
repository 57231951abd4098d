"""One of five real nodes with additive shares is killed by pid after it has spent its vector.

The others have voted for a sum that needs the dead node's, so they wait until it is back.
All other steps of a round: tests/box/test_kills.py.
"""

from __future__ import annotations

import signal
from pathlib import Path

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.swarm import ADDITIVE, Swarm, nothing_twice, one_digest
from tests.run_folders import fact, rows

VICTIM = 3


def test_a_node_killed_with_its_vector_spent_comes_back_and_spends_nothing_twice(
    make_swarm, tmp_path: Path
) -> None:
    swarm: Swarm = make_swarm(5, 5, ADDITIVE)
    offers = tmp_path / "offers"
    nodes = swarm.start_all({VICTIM: Orders(fate=Fate("Sum", session=2), offers=offers)})
    victim = nodes.pop(VICTIM)
    assert victim.status() == -signal.SIGKILL
    out = swarm.out(VICTIM)
    assert rows(out, "select max(round) from ledger") == [(fact(out, "round") + 1,)]
    assert (fact(out, "fresh") is None, fact(out, "spent") is None) == (True, False)
    again = swarm.start(VICTIM, orders=Orders(offers=offers))
    one_digest([node.ends_well() for node in (*nodes, again)])
    nothing_twice(out, offers)
