"""One member of a masked session dies instead of any one of its sends, in both layouts.

All survivors end in time. Either all of them complete, on one set of members, or nobody released anything.
"""

from dataclasses import replace
from itertools import product

import pytest

from protocol.masked_messages import JoinCertificate
from tests.simulation.bare import Swarm
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule, remembered

LAYOUTS = {"everybody adds up": EVERYBODY_ADDS, "reducers": REDUCERS}
GROUPS = {4: 1, 5: None}
"""How many members, and the dropouts that are asked for: 4 tolerate 1 only where that is said."""


def crash_everywhere(calm: Schedule, mute: tuple[type, ...] = ()) -> list[Swarm]:
    """Every member, at every one of its sends."""
    swarm = Swarm(calm, mute=mute).run()
    assert len(swarm.completed) == calm.members
    return [
        Swarm(replace(calm, crashes=(Crash(member.number, at_send),)), mute=mute).run()
        for member in swarm.members
        for at_send in range(1, member.sends + 1)
    ]


def check_everywhere(calm: Schedule) -> int:
    with remembered():
        swarms = crash_everywhere(calm)
    for swarm in swarms:
        assert swarm.all_or_nothing, f"{swarm.schedule}: {swarm.reasons}, {len(swarm.releases)} releases"
        assert not _is_split(swarm), f"{swarm.schedule}: some began that others could not follow"
    assert sum(not swarm.releases for swarm in swarms) < len(swarms) / 2
    return len(swarms)


@pytest.mark.parametrize("notices", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize(("members", "dropouts"), GROUPS.items())
def test_every_member_killed_at_every_send(members, dropouts, layout, notices):
    calm = Schedule(members, members, layout, dropouts, notices=notices)
    assert check_everywhere(calm) >= 5 * members * (members - 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize(("members", "dropouts"), GROUPS.items())
def test_every_member_killed_at_every_send_many_times(members, dropouts, layout, seed):
    for notices, slow_s in product((True, False), (0.02, 0.5)):
        check_everywhere(
            Schedule(seed, members, layout, dropouts, delay_s=(0.001, slow_s), notices=notices, groups=16)
        )


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_pair_of_ten_dies_at_like_places(layout):
    """f = 2 of n = 10."""
    with remembered():
        for place in range(1, 70, 4):
            crashes = (Crash(place % 10, 9 + place), Crash((place + 3) % 10, 12 + place))
            swarm = Swarm(Schedule(place, 10, layout, crashes=crashes)).run()
            assert swarm.all_or_nothing, f"{swarm.schedule}: {swarm.reasons}, {len(swarm.releases)} releases"


def test_planted_fault_without_the_echo_of_the_certificate_some_begin_and_others_can_not_follow():
    """Who dies among its votes leaves one with all of them: that one spends its offer alone."""
    calm = Schedule(4, 4, EVERYBODY_ADDS, 1)
    with remembered():
        swarms = crash_everywhere(calm, mute=(JoinCertificate,))
    assert any(_is_split(swarm) for swarm in swarms)
    with remembered():
        assert not any(_is_split(swarm) for swarm in crash_everywhere(calm))


def _is_split(swarm: Swarm) -> bool:
    """Whether some spent their offers, and others never began."""
    return len({member.spent for member in swarm.survivors}) == 2
