"""One member of a masked session dies instead of any one of its sends, in both layouts.

All survivors end in time. Without network losses, and with no more deaths than are tolerated, all complete
with one set of members once a single offer is spent: a death costs no round.
"""

import random
from dataclasses import replace
from itertools import product

import pytest

from protocol.wire.masked_messages import JoinCertificate
from tests.cases import soak
from tests.simulation.bare import Swarm
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule, remembered

LAYOUTS = {"everybody adds up": EVERYBODY_ADDS, "reducers": REDUCERS}
GROUPS = {4: 1, 5: None}
"""Numbers of members, and the dropouts to tolerate: 4 members tolerate 1 only if the setting says so."""


def crash_everywhere(calm: Schedule, mute: tuple[type, ...] = ()) -> list[Swarm]:
    """Kills every member, at every one of its sends."""
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
        assert not _is_split(swarm), f"{swarm.schedule}: some began that others could not follow"
        _all_complete(swarm)
    assert sum(not swarm.releases for swarm in swarms) < len(swarms) / 2
    return len(swarms)


@pytest.mark.sampled("4-1-everybody adds up")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize(("members", "dropouts"), GROUPS.items())
def test_every_member_killed_at_every_send(members, dropouts, layout):
    """With reducers, four are told of the death and five are not; if all add up, it is the other way."""
    notices = (members == 4) == (layout == REDUCERS)
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


def _all_complete(swarm: Swarm) -> None:
    """Checks that all completed, or no session began."""
    begun = any(member.spent for member in swarm.survivors)
    assert not begun or len(swarm.completed) == len(swarm.survivors), (swarm.schedule, swarm.reasons)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("first", [1, soak(5)])
def test_every_pair_of_ten_dies_at_like_places(first, layout):
    """f = 2 of n = 10."""
    with remembered():
        for place in range(first, 70, 8):
            crashes = (Crash(place % 10, 9 + place), Crash((place + 3) % 10, 12 + place))
            _all_complete(Swarm(Schedule(place, 10, layout, crashes=crashes)).run())


@pytest.mark.parametrize(
    ("seed", "layout", "crash"),
    [
        (17, REDUCERS, Crash(1, 22)),
        (14, REDUCERS, Crash(2, 24)),
        (38, REDUCERS, Crash(1, 22)),
        (6, EVERYBODY_ADDS, Crash(0, 15)),
        (60, EVERYBODY_ADDS, Crash(3, 14)),
    ],
)
def test_one_that_alone_had_all_of_a_dead_member_brings_the_others_to_its_totals(seed, layout, crash):
    """The last send of a dead member reached one member, which acknowledged totals that include it."""
    with remembered():
        swarm = Swarm(Schedule(seed, 5, layout, crashes=(crash,), groups=16)).run()
    assert [len(member.end.contributors) for member in swarm.completed] == [5] * 4


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 60), *(soak(first, 1000) for first in range(0, 20_000, 1000))],
)
def test_as_many_as_are_tolerated_die_anywhere(first, count):
    with remembered():
        for seed in range(first, first + count):
            _all_complete(Swarm(_deaths(seed)).run())


def _deaths(seed: int) -> Schedule:
    """Draws deaths of as many of five to ten members as they tolerate, after the first JOINs."""
    rng = random.Random(seed)
    members = rng.randint(5, 10)
    calm = Schedule(
        seed=seed,
        members=members,
        all_to_all_bytes=rng.choice([EVERYBODY_ADDS, REDUCERS]),
        delay_s=(0.001, rng.choice([0.05, 0.2])),
        duplication=rng.choice([0.0, 0.2]),
        notices=rng.random() < 0.7,
    )
    dead = rng.sample(range(members), rng.randint(1, calm.scheme.tolerance.dropouts))
    positions = 2 * (members - 1), 8 * (members - 1) + 10
    return replace(calm, crashes=tuple(Crash(member, rng.randint(*positions)) for member in dead))


def test_planted_fault_without_the_echo_of_the_certificate_some_begin_and_others_can_not_follow():
    """A death among the votes leaves one member with all of them, which spends its offer alone."""
    calm = Schedule(4, 4, EVERYBODY_ADDS, 1)
    with remembered():
        swarms = crash_everywhere(calm, mute=(JoinCertificate,))
    assert any(_is_split(swarm) for swarm in swarms)
    with remembered():
        assert not any(_is_split(swarm) for swarm in crash_everywhere(calm))


def _is_split(swarm: Swarm) -> bool:
    """Returns whether some members spent their offers while others never began."""
    return len({member.spent for member in swarm.survivors}) == 2
