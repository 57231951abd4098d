"""Offers at different times meet: who misses the others does not miss them again and again."""

import pytest

from scenarios.simulator.network import START_S, Network
from scenarios.simulator.plans import Conditions, Deadlines, Leave, Links, Offers, Plan

TRAINS_S = 15.0
BACK_S = (26.0, 37.0)


@pytest.mark.parametrize("notices", [True, False])
def test_three_whose_waits_overlap_two_by_two_meet_within_a_wait_and_a_training(notices):
    """Each trains for 15 s and waits for 20 s, at thirds of that time: while two wait, the third one trains.

    Before, it stayed so for ever.
    """
    leaves = tuple(Leave(peer, 20.0, back_s) for peer, back_s in enumerate(BACK_S, 1))
    conditions = Conditions(Links(delay_s=(0.001, 0.02), notices_loss=notices), leaves=leaves)
    plan = Plan(3, 1000, conditions, offers=Offers((TRAINS_S, TRAINS_S + 0.01)))
    in_time_s = max(BACK_S) + Deadlines().group_s + TRAINS_S
    network = Network(plan, seed=1).run_for(in_time_s)
    made = [outcome.at_s - START_S for outcome in network.rules.outcomes if outcome.reason is None]
    assert len([at_s for at_s in made if at_s > max(BACK_S)]) == 3
