"""Sums that all have the members of the first one: no others enter, and nobody goes on without one."""

import math

import pytest

from protocol.actions import Completed, Failed, Reason
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_keys
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.group_seeker import GroupSeeker
from protocol.swarm.votes.obstacle import Stage
from tests.parts import NOW, base, endpoint, group_of, members, patience, rand, ready, settings, state, vector
from tests.wires import Wires

KEYS = members(5)
T_GROUP_S = 120.0
JOB = {
    "sums": 3,
    "by_steps": True,
    "cohort": True,
    "weak": False,
    "masked": MaskedSettings(None, None, all_or_none=True),
    "shares": ShareSettings("seed", None, 100.0),
}


def begun(count: int, **changes) -> Wires:
    """Lets the first `count` of five make the first sum, of at least three members."""
    wires = Wires(KEYS, **{**JOB, **changes}).open().tick(6.0)
    return wires.offer(*KEYS[:count]).tick(10.0).tick(10.0)


def contributors(wires: Wires) -> list[int]:
    found = {end.sid: len(end.contributors) for _, end in wires.ends(Completed)}
    return list(found.values())


@pytest.mark.parametrize("count", [3, 4], ids=["shares", "masks"])
def test_late_members_follow_and_get_every_base(count):
    wires, late = begun(count), KEYS[count:]
    for _ in range(2):
        wires.follow(*late)
        wires.offer(*KEYS[:count]).tick(5.0)
    assert contributors(wires) == [count] * 3
    assert {wires[key].base.generation for key in KEYS} == {3}
    reasons = {failed.reason for where, failed in wires.ends(Failed) if where == endpoint(late[0])}
    assert reasons == {Reason.LATE_MEMBER}


@pytest.mark.parametrize(("wait_s", "stage"), [(0.0, Stage.COHORT), (math.inf, Stage.COHORT_ENDLESS)])
def test_the_others_wait_for_one_of_them_and_say_for_whom(wait_s, stage):
    wires = begun(4, wait_each_s=wait_s)
    gone, here = KEYS[3], KEYS[:3]
    wires.dropped = lambda sender, to, _message: endpoint(gone) in (sender, to)
    for key in here:
        wires.carry_out(endpoint(key), wires[key].unreachable(endpoint(gone), "gone", wires.now))
    wires.follow(KEYS[4]).offer(*here).tick(T_GROUP_S, *here)
    ended = {where for where, failed in wires.ends(Failed) if failed.reason is Reason.GROUP_TIMEOUT}
    assert ended == (set() if wait_s else {endpoint(key) for key in here})
    obstacle = wires[here[0]].picture().obstacle
    assert (obstacle.stage, [one.key for one in obstacle.absent]) == (stage, [gone.public])

    wires.dropped = lambda *_: False
    wires.tick(20.0).offer(*(KEYS[3:4] if wait_s else KEYS[:4])).tick(20.0)
    assert contributors(wires) == [4, 4]


def test_who_was_not_in_the_first_sum_and_offers_nevertheless_delays_nobody():
    wires = begun(3)
    wires.offer(KEYS[3]).offer(*KEYS[:3]).tick(5.0)
    assert contributors(wires) == [3, 3]
    assert "a READY of one that was not in the first sum" in {str(error) for error in wires.errors}


@pytest.mark.parametrize("others", [KEYS[1:], (*KEYS[1:3], KEYS[4])], ids=["one more", "another"])
def test_a_group_of_others_than_the_first_sum_s_is_refused(others):
    held = base(1, size=4, anchor=1)
    own = settings(KEYS[0], **JOB)
    where = state(held=held, line=Line(1, of_keys(key.public for key in KEYS[:4])))
    seeker = GroupSeeker(own, where, patience(own, where))
    seeker.begin(vector(0), rand(0), 0.0, NOW)
    mine = seeker.ask(KEYS[1].public, NOW)
    readys = [ready(key, KEYS[1].public, electors=mine.electors, base=held) for key in others]
    with pytest.raises(RemoteProtocolError, match="of other members than those of the first sum"):
        seeker.check(group_of([mine, *readys], KEYS[1]), 1 + len(others))
