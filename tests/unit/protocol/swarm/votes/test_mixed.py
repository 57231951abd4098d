"""Which named peers of another version a node waits for: those without which no group can form."""

import math
from dataclasses import replace

import pytest

from protocol.actions import Failed, Note, Notice, Reason, Waiting
from protocol.quorum.electorate import Electorate, of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.discovery import NEWER_VERSION, OLDER_VERSION, Discovery
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.votes.mixed import MixedVersions
from protocol.swarm.votes.obstacle import Stage
from protocol.wire.ids import RESIGNED
from protocol.wire.messages import Hello
from tests.parts import NOW, PARAMETERS, announce, base, endpoint, members, outbox, rand, settings, state
from tests.wires import Wires

KEYS = members(5)
ME, TWO, THREE, FOUR, FIVE = (endpoint(key) for key in KEYS)
NAMED = (TWO, THREE, FOUR, FIVE)
STRONG = replace(base(3), anchor=3)
T_GROUP_S = 120.0
OLDER = f"{OLDER_VERSION} (protocol 1, this node 2): upgrade"


class Place:
    """Member one among five named peers, of whom some run another version."""

    def __init__(self, *others: str, electors: Electorate | None = None, held=None, **changes):
        electorate = of_names((ME, *NAMED))
        self.settings = settings(KEYS[0], **{"seeds": NAMED, "electorate": electorate, **changes})
        self.state = state(held=held)
        if electors is not None:
            self.state.line = Line(3, electors)
        self.discovery = Discovery(self.settings, self.state, rand(0))
        self.discovery.open(NOW)
        self.patience = Patience(self.settings, self.state, self.discovery.members)
        self.mixed = MixedVersions(self.settings, self.state, self.discovery, self.patience)
        for other in others:
            self.discovery.unreachable(other, NOW, OLDER)

    def hear(self, *keys, **changes):
        for key in keys:
            said = announce(key, **{"base": self.state.base, **changes})
            self.discovery.hello(Hello(said, bytes(16), False, PARAMETERS, ()), key.public, NOW)
        return self

    @property
    def needed(self) -> tuple[str, ...]:
        return self.mixed.needed(NOW)


def test_nobody_is_needed_while_all_run_the_same():
    assert Place().needed == ()
    assert Place(min_participants=6).needed == (), "too few are named: no version is the reason"


@pytest.mark.parametrize(("others", "is_needed"), [(NAMED[:1], False), (NAMED[:2], False), (NAMED[:3], True)])
def test_peers_are_needed_where_all_the_others_are_too_few_or_no_quorum(others, is_needed):
    assert Place(*others).needed == (others if is_needed else ())
    assert Place(*others, min_participants=2).needed == (others if is_needed else ()), (
        "two of five: no quorum"
    )
    any_two = Electorate(least=2)
    assert Place(*others, min_participants=2, electorate=any_two).needed == ()
    any_three = Electorate(least=3)
    assert Place(*others, min_participants=2, electorate=any_three).needed == (others if is_needed else ())


def test_who_was_not_named_does_not_count_and_helps_when_it_is_of_this_version():
    known = announce(KEYS[4])
    place = Place(TWO, seeds=(TWO, THREE), electorate=Electorate(least=3))
    assert place.needed == (TWO,)
    place.discovery.news((known,), NOW)
    place.discovery.unreachable(FIVE, NOW, OLDER)
    assert place.discovery.other_versions == {TWO: OLDER}
    assert place.hear(KEYS[4]).needed == ()


def test_who_follows_or_has_left_makes_no_group_and_who_follows_makes_none_itself():
    for changes in ({"following": True}, {"leaving": True}):
        place = Place(FOUR, FIVE)
        assert place.hear(KEYS[1]).needed == ()
        assert place.hear(KEYS[2], **changes).needed == (FOUR, FIVE)
    place = Place(FOUR, FIVE)
    place.state.following = True
    assert place.needed == (FOUR, FIVE)


def test_electors_that_are_known_by_key_may_stand_at_any_endpoint_that_was_not_met():
    electors = of_keys(key.public for key in KEYS)
    assert Place(FOUR, FIVE, electors=electors, held=STRONG).needed == ()
    assert Place(THREE, FOUR, FIVE, electors=electors, held=STRONG, min_participants=2).needed == NAMED[1:]
    of_others = of_keys(key.public for key in members(9)[5:])
    assert Place(TWO, electors=of_others, held=STRONG).needed == ()
    assert Place(TWO, THREE, FOUR, electors=of_others, held=STRONG, min_participants=2).needed == NAMED[:3]


def test_electors_that_resigned_or_are_gone_for_good_are_not_waited_for():
    """Two of five electors are no quorum; two of four are one, with the first among them."""

    def place() -> Place:
        electors = of_keys(key.public for key in KEYS)
        seeds = (TWO, FOUR, FIVE)
        found = Place(FOUR, FIVE, electors=electors, held=STRONG, min_participants=2, seeds=seeds)
        return found.hear(KEYS[1])

    assert place().needed == (FOUR, FIVE)
    assert place().hear(KEYS[2], following=True, open=(RESIGNED,)).needed == ()
    declared = place()
    declared.state.gone = frozenset({KEYS[3].public})
    assert declared.needed == ()


def test_a_tracker_of_another_version_is_needed_always():
    place = Place(seeds=(), tracker="127.0.0.1:9", electorate=None)
    assert place.needed == ()
    place.discovery.unreachable("127.0.0.1:9", NOW, OLDER)
    assert place.needed == ("127.0.0.1:9",)


def test_a_named_peer_of_another_version_is_needed_at_a_tracker_only_for_the_number():
    """What the tracker introduces is greeted, and only that."""
    for least, needed in ((2, ()), (3, (TWO,))):
        place = Place(seeds=(TWO, THREE), tracker="127.0.0.1:9", electorate=None, min_participants=least)
        place.discovery.greet(TWO, NOW)
        place.discovery.unreachable(TWO, NOW, OLDER)
        assert place.needed == needed


# -- what follows --------------------------------------------------------------------------------------


def two_of_three(why: str = OLDER, **changes) -> Wires:
    """Two of three named peers meet and offer; the third runs another version."""
    named = tuple(endpoint(key) for key in KEYS[:3])
    wires = Wires(KEYS[:2], **{"electorate": of_names(named), "seeds": named, **changes}).open()
    for key in wires.keys:
        wires.carry_out(endpoint(key), wires[key].unreachable(THREE, why, wires.now))
    return wires.tick(0.1).offer()


def said(wires: Wires, kind: Note) -> list[str]:
    return [a.text for _, a in wires.told if isinstance(a, Notice) and a.kind is kind]


@pytest.mark.parametrize("why", [OLDER, f"{NEWER_VERSION} (protocol 3, this node 2): upgrade"])
def test_no_round_ends_and_who_is_needed_is_named(why):
    wires = two_of_three(why)
    assert set(said(wires, Note.OTHER_VERSION)) == {why}
    for _ in range(20):
        wires.tick(T_GROUP_S)
    assert not wires.ends(Failed)
    assert {wires[key].round for key in wires.keys} == {0}
    assert Waiting(is_anew=True) not in [action for _, action in wires.told]
    found = wires[KEYS[0]].picture().obstacle
    assert (found.stage, [one.name for one in found.absent]) == (Stage.VERSIONS, [THREE])
    assert wires[KEYS[0]].other_versions == {THREE: why}
    assert wires[KEYS[0]].status.deadline > wires.now


def test_the_owner_s_limit_holds_and_after_a_first_group_there_is_none():
    wires = two_of_three(wait_s=300.0).tick(T_GROUP_S).tick(T_GROUP_S)
    assert not wires.ends(Failed)
    wires.tick(T_GROUP_S)
    assert [end.reason for _, end in wires.ends(Failed)] == [Reason.GROUP_TIMEOUT] * 2
    patience = Patience(settings(KEYS[0], wait_s=300.0), state(), Place().discovery.members)
    patience.offered(NOW)
    assert not patience.waits(NOW + 301, for_upgrade=True)
    patience.grouped()
    assert patience.waits(NOW + 302, for_upgrade=True)
    assert not patience.waits(NOW + 302)
    assert Patience(settings(KEYS[0], wait_s=math.inf), state(), Place().discovery.members).waits(NOW, True)


def test_a_node_looks_for_a_named_peer_that_left_when_another_version_has_dialled():
    wires = Wires(KEYS[:2]).open()
    for action in wires[KEYS[1]].leave(wires.now):
        wires.carry_out(TWO, [action])
    wires.quiet()
    assert outbox(wires[KEYS[0]].look_again(wires.now), TWO)


def test_a_follower_s_round_does_not_end_either():
    wires = Wires(KEYS[:1], electorate=of_names((ME, *NAMED)), seeds=NAMED).open()
    for other in NAMED[:3]:
        wires.carry_out(ME, wires[KEYS[0]].unreachable(other, OLDER, wires.now))
    wires.tick(6.0).follow(KEYS[0])
    for _ in range(3):
        wires.tick(T_GROUP_S)
    assert not wires.ends(Failed)
