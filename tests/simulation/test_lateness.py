"""A killed peer comes back about when the others end: it waits only if no peer is left."""

import pytest

from protocol.actions import Reason
from scenarios.simulator.plans import Conditions, Crash, Links, Plan
from tests.cases import soak
from tests.simulation.runs import outcomes, run

ROUNDS = 3
WAITED, LATE = Reason.GROUP_TIMEOUT, Reason.SWARM_FINISHED


@pytest.mark.sampled("10-0-False")
@pytest.mark.parametrize("tracker", [False, True])
@pytest.mark.parametrize("victim", [0, 3])
@pytest.mark.parametrize("step", [10, soak(5)])
def test_who_comes_back_waits_for_nobody_who_has_finished(victim, tracker, step):
    plan = Plan(4, ROUNDS, tracker=tracker)
    sends = run(plan, 1).hosts[victim].sends
    caught_up = 0
    for at_send in range(2, sends + 1, step):
        for back_after_s in (0.5, 2.0):
            crash = Crash(victim, at_send, back_after_s)
            network = run(
                Plan(4, ROUNDS, Conditions(Links(notices_loss=False), crashes=(crash,)), tracker=tracker), 1
            )
            mine = [outcome.reason for outcome in outcomes(network, victim)]
            assert WAITED not in mine or network.peers[victim].node.swarm_end.is_deserted, crash
            assert mine.count(LATE) <= 1, crash
            assert LATE not in mine or mine[-1] == LATE, crash
            others = network.peers[victim].node._members.every
            alone = network.peers[victim].gave_up and all(one.suspect or one.counts_no_more for one in others)
            assert LATE not in mine or alone or len({peer.base for peer in network.peers}) == 1, crash
            caught_up += network.peers[victim].base.generation == ROUNDS > mine.count(None)
    assert caught_up
