"""Seeds of outages of relays and of ways to them: the rules of tests.box.invariants hold, and all meet."""

from __future__ import annotations

import pytest

from protocol.swarm.meeting.patience import Patience
from tests.box.relay_seeds import RelayRun
from tests.box.seeds import run_seed
from tests.cases import soaks

SEEDS = (303, 305, 306, 309)
SOAK = range(200)


@pytest.mark.sampled("305", "309")
@pytest.mark.parametrize("seed", [*SEEDS, *soaks(SOAK)])
def test_who_lacks_a_quorum_spends_no_round_and_all_meet_after_outages(seed: int, memory) -> None:
    run_seed(seed, memory / "box", RelayRun)


def test_a_round_that_ends_for_want_of_a_group_is_found(monkeypatch, memory) -> None:
    monkeypatch.setattr(Patience, "waits", lambda self, now, for_upgrade=False: False)
    with pytest.raises(AssertionError, match="spent a round that offered nothing"):
        run_seed(319, memory / "box", RelayRun)
