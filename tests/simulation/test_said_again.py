"""A shell reports a lost member several times: once for each link, and at each new attempt."""

import pytest

from protocol.aggregation.masked.machine import DoubleMasked
from tests.cases import soak
from tests.parts import NOW
from tests.simulation.bare import Swarm
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule, remembered

JOINS = 3 * 4  # messages of each of five before its masks: JOIN, JOINED and the certificate, to four others


class Insistent(DoubleMasked):
    """A machine that receives every loss four times."""

    def unreachable(self, key, now):
        return [action for _ in range(4) for action in super(Insistent, self).unreachable(key, now)]


@pytest.mark.sampled(
    "range(0, 3)-13-by everybody", "range(0, 3)-14-by reducers", "range(0, 3)-15-by everybody"
)
@pytest.mark.parametrize("layout", [EVERYBODY_ADDS, REDUCERS], ids=["by everybody", "by reducers"])
@pytest.mark.parametrize("at_send", range(JOINS + 1, JOINS + 6))
@pytest.mark.parametrize("seeds", [range(3), soak(range(3, 6))], ids=str)
def test_a_loss_that_is_said_again_uses_up_no_view(layout: int, at_send: int, seeds: range):
    """A loss that used up all views left no proposer: the others waited in vain until the session's end."""
    for seed in seeds:
        for member in range(5):
            schedule = Schedule(seed, 5, layout, crashes=(Crash(member, at_send),))
            with remembered():
                swarm = Swarm(schedule, kind=Insistent).run()
            assert swarm.reasons == {None: 4}, schedule
            assert swarm.now - NOW < 2.0, schedule
