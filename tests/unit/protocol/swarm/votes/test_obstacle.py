"""Why no group forms: who is missing, what follows, and when a node gives notice of it."""

from dataclasses import replace
from math import inf

import pytest

from protocol.actions import Completed, Elector, Failed, OpenVote, Waiting
from protocol.quorum.electorate import Electorate, of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import PATIENT_ROUNDS, PATIENT_S, Patience
from protocol.swarm.node import LONG_S
from protocol.swarm.node_state import NodeState
from protocol.swarm.votes.obstacle import Obstacle, Stage, Whose, obstacle
from protocol.wire.ids import RESIGNED
from tests.parts import NOW, announce, base, endpoint, members, settings, state
from tests.wires import Wires

KEYS = members(9)
SID = b"s" * 32
STRONG = replace(base(3), anchor=3)
WEAK = replace(base(4), anchor=3)


class Place:
    """Where a node stands, and whom it hears. `electors`: how many of KEYS, or which."""

    def __init__(self, electors, held=STRONG, me=0, **changes):
        made = electors if isinstance(electors, Electorate) else of_keys(key.public for key in electors)
        is_first = isinstance(electors, Electorate)
        if is_first:
            changes = {"electorate": electors, **changes}
        self.settings = settings(KEYS[me], **changes)
        self.state: NodeState = state(held=held)
        self.state.line = Line() if is_first else Line(held.anchor, made)
        self.members = Members(self.state)
        self.patience = Patience(self.settings, self.state, self.members)
        self.now = NOW
        self.needed = ()
        """The peers of another version that are needed."""

    def name(self, key):
        found = self.members.get(key)
        return found.endpoint if found else key.hex()[:8]

    def hear(self, *keys, **changes):
        for key in keys:
            one = announce(key, **{"base": self.state.base, **changes})
            self.members.learn(one, self.now, live=True)
        return self

    def fail(self, rounds, over_s=0.0):
        for _ in range(rounds):
            self.patience.failed(self.now)
        self.now += over_s
        return self

    def look(self) -> Obstacle | None:
        return obstacle(
            self.settings, self.state, self.members, self.patience, self.name, self.needed, self.now
        )

    @property
    def waits_for(self):
        """How many of whom it waits for."""
        found = self.look()
        return found.missing, [one.name for one in found.absent]


def short(*keys):
    return [key.public.hex()[:8] for key in keys]


def test_where_a_quorum_is_here_nothing_is_in_the_way():
    assert Place(KEYS[:5]).hear(*KEYS[1:3]).look() is None


def test_the_smallest_number_that_makes_a_quorum_and_all_that_are_missing():
    found = Place(KEYS[:7]).hear(KEYS[1], KEYS[8]).look()
    absent = tuple(Elector(*short(key), key.public) for key in KEYS[2:7])
    assert (found.missing, found.absent, found.whose) == (3, absent, Whose.LAST)
    assert (found.stage, found.patience.rounds, found.tie) == (Stage.PATIENT, PATIENT_ROUNDS, None)


def test_an_elector_that_is_known_is_named_by_its_endpoint():
    place = Place(KEYS[:2], me=1).hear(KEYS[0], KEYS[7], KEYS[8])
    place.members.suspect(KEYS[0].public)
    assert place.waits_for == (1, [endpoint(KEYS[0])])


def test_where_half_suffices_with_the_first_elector_both_numbers_are_given():
    found = Place(KEYS[:4], me=1).hear(KEYS[7], KEYS[8]).look()
    assert (found.missing, len(found.absent)) == (1, 3)
    assert found.tie == (Elector(*short(KEYS[0]), KEYS[0].public), 2)


def test_whose_vote_is_bound_does_not_count_and_is_marked_oneself_too():
    place = Place(KEYS[:5]).hear(KEYS[1]).hear(KEYS[2], open=(SID,))
    place.state.votes[SID] = OpenVote(SID, 3)
    found = place.look()
    assert found.missing == 2
    assert [(one.is_me, one.is_bound) for one in found.absent] == [
        (True, True),
        (False, True),
        *[(False, False)] * 2,
    ]


def test_who_resigned_on_this_anchor_is_not_waited_for():
    place = Place(KEYS[:5], me=4).hear(KEYS[1])
    assert place.look().missing == 1
    place.hear(KEYS[2], open=(RESIGNED,), following=True, base=replace(base(9), anchor=9))
    assert place.look().missing == 1
    place.hear(KEYS[3], open=(RESIGNED,), following=True)
    assert place.waits_for == (1, [*short(KEYS[0]), endpoint(KEYS[2])])
    place.hear(KEYS[8], open=(RESIGNED,), following=True)
    place.hear(KEYS[0], open=(RESIGNED,), following=True)
    assert place.waits_for == (1, [endpoint(KEYS[2])])
    assert place.look().stage is Stage.TOO_FEW
    assert place.hear(KEYS[7]).look() is None


def test_who_follows_sees_none():
    place = Place(KEYS[:5])
    place.state.following = True
    assert place.look() is None


def test_who_does_not_know_the_electors_counts_who_is_here():
    unnamed = Place(KEYS[:5], held=base(), electorate=None)
    unnamed.state.line = Line()
    assert unnamed.look() == Obstacle(Stage.TOO_FEW, 2, here=1, least=3)
    assert unnamed.hear(*KEYS[1:3]).look() is None


def test_a_quorum_that_is_no_group_waits_for_who_is_missing():
    named = of_names(endpoint(key) for key in KEYS[:3])
    place = Place(named, held=base(), weak=False).hear(KEYS[1])
    found = place.look()
    assert place.waits_for == (1, [endpoint(KEYS[2])])
    assert (found.stage, found.whose, found.here, found.least) == (Stage.TOO_FEW, Whose.NAMED, 2, 3)
    assert place.hear(KEYS[2]).look() is None


def test_a_quorum_of_the_last_ones_that_are_left_waits_for_anybody():
    place = Place(KEYS[:3]).hear(KEYS[1]).hear(KEYS[2], open=(RESIGNED,), following=True)
    assert place.look() == Obstacle(Stage.TOO_FEW, 1, here=2, least=3)


def test_of_a_first_model_those_are_waited_for_that_were_named():
    named = of_names(endpoint(key) for key in KEYS[:4])
    pins = {endpoint(KEYS[0]): KEYS[0].public}
    found = Place(named, held=base(), me=3, pins=pins).hear(KEYS[8]).hear(KEYS[2], open=(SID,)).look()
    assert found.whose is Whose.NAMED
    assert {one.name: (one.key, one.is_bound) for one in found.absent} == {
        endpoint(KEYS[0]): (KEYS[0].public, False),
        endpoint(KEYS[1]): (None, False),
        endpoint(KEYS[2]): (KEYS[2].public, True),
    }


@pytest.mark.parametrize(("least", "missing"), [(4, 2), (3, 1)])
def test_where_any_so_many_make_the_first_model_nobody_is_named(least, missing):
    place = Place(Electorate(least=least), held=base(), weak=False).hear(KEYS[1])
    assert place.waits_for == (missing, [])
    assert place.look().stage is Stage.NEVER


def test_what_comes_of_it():
    def five(**changes):
        return Place(KEYS[:7], **changes).hear(KEYS[1], KEYS[2])

    def outlook(place):
        found = place.look()
        return found.stage, found.patience.rounds, found.whose

    assert outlook(five()) == (Stage.PATIENT, PATIENT_ROUNDS, Whose.LAST)
    assert outlook(five().fail(4)) == (Stage.PATIENT, 1, Whose.LAST)
    assert outlook(five().fail(PATIENT_ROUNDS)) == (Stage.PATIENT, 0, Whose.LAST)
    assert outlook(five().fail(PATIENT_ROUNDS, PATIENT_S)) == (Stage.WILLING, 0, Whose.LAST)
    endless = five(wait_each_s=inf).fail(PATIENT_ROUNDS, PATIENT_S)
    assert outlook(endless) == (Stage.ENDLESS, 0, Whose.LAST)
    assert outlook(five(held=WEAK)) == (Stage.WEAK, PATIENT_ROUNDS, Whose.STRONG)
    assert outlook(five(weak=False)) == (Stage.NEVER, PATIENT_ROUNDS, Whose.LAST)
    assert five(amnesty_s=90.0).look().patience.amnesty_s == 90.0


def test_too_few_for_a_group_wait_for_more_whatever_else_follows():
    alone, two = Place(KEYS[:5], held=WEAK), Place(KEYS[:5], held=WEAK).hear(KEYS[8])
    assert (alone.look().stage, alone.look().here) == (Stage.TOO_FEW, 1)
    assert (two.look().stage, two.look().here) == (Stage.TOO_FEW, 2)


def test_who_has_a_quorum_by_its_own_word_alone_sees_that_once_a_round_failed():
    place = Place(KEYS[:5]).hear(KEYS[1])
    place.state.gone = frozenset(key.public for key in KEYS[2:4])
    assert place.look() is None
    assert place.fail(1).look().stage is Stage.SAID
    assert place.waits_for == (0, short(*KEYS[2:4]))


def test_where_all_electors_count_as_gone_nobody_can_be_named():
    place = Place(KEYS[:2], me=8).hear(*KEYS[6:8])
    place.state.gone = frozenset(key.public for key in KEYS[:2])
    assert place.waits_for == (0, [])


# -- in a session ------------------------------------------------------------------------------------


def five_named(count, **changes) -> Wires:
    """Makes `count` of five peers whose endpoints were named, and who have met."""
    named = of_names(endpoint(key) for key in KEYS[:5])
    return Wires(KEYS[:count], electorate=named, **changes).open()


def waiting(wires):
    return [action for _, action in wires.told if isinstance(action, Waiting)]


def test_a_node_gives_notice_while_its_offer_waits_and_when_its_round_fails():
    wires = five_named(2)
    assert all(node.picture().obstacle is None for node in wires.nodes.values())
    wires.offer().tick(1.0)
    assert waiting(wires) == []
    found = wires[KEYS[0]].picture().obstacle
    assert (found.stage, found.whose) == (Stage.TOO_FEW, Whose.NAMED)
    wires.tick(LONG_S)
    assert waiting(wires) == [Waiting()] * 2
    wires.tick(120.0)
    assert len(wires.ends(Failed)) == 2
    assert waiting(wires) == [Waiting()] * 4
    wires.tick(1.0)
    assert len(waiting(wires)) == 4


def test_who_meets_the_others_or_has_ended_waits_for_nobody():
    wires = Wires(KEYS[:3], electorate=of_names(endpoint(key) for key in KEYS[:7]))
    node = wires[KEYS[0]]
    node.open(NOW)
    node.tick(NOW + 0.1)
    assert node.picture().obstacle is None
    wires.open().tick(0.5)
    assert node.picture().obstacle is not None
    node.close(wires.now)
    node.tick(wires.now + 0.1)
    assert node.picture().obstacle is None


def test_a_session_without_electors_that_all_owners_call_gone_names_them():
    wires = five_named(3)
    for node in wires.nodes.values():
        node._state.gone = frozenset(endpoint(key).encode() for key in KEYS[3:5])
    wires.offer()
    ends = [action for _, action in wires.ends(Completed)]
    assert len(ends) == 3
    gone = tuple(Elector(one) for one in sorted(endpoint(key) for key in KEYS[3:5]))
    assert all(end.without == gone for end in ends)
    assert [end.line.anchor for end in ends] == [1] * 3


def test_a_session_with_a_quorum_of_its_own_names_nobody():
    wires = five_named(5).offer()
    assert [action.without for _, action in wires.ends(Completed)] == [()] * 5


def test_a_weak_session_makes_a_weak_base():
    named = of_names(endpoint(key) for key in KEYS[:7])
    wires = Wires(KEYS[:3], electorate=named).open()
    for node in wires.nodes.values():
        node._patience.failed_rounds, node._patience._failed_since = PATIENT_ROUNDS, NOW - PATIENT_S
    wires.offer()
    assert [(end.without, end.line.anchor) for _, end in wires.ends(Completed)] == [((), 0)] * 3
    assert not any(node.picture().base.is_strong for node in wires.nodes.values())
    assert {node.picture().obstacle.stage for node in wires.nodes.values()} == {Stage.WEAK}


def test_who_made_the_base_is_named_by_where_it_listened_also_when_it_was_not_heard_since():
    wires = five_named(5).offer()
    node = wires[KEYS[0]]
    node._members.forget(KEYS[4].public)
    node.addresses._grouped = {}
    assert node.addresses.of(KEYS[4].public) is None
    assert node.addresses.named(KEYS[4].public) == endpoint(KEYS[4])
    assert node.addresses.named(KEYS[8].public) == KEYS[8].public.hex()[:8]


def test_an_amnesty_is_told_as_the_owners_word_is():
    wires = five_named(3, amnesty_s=60.0, group_s=5.0)
    for node in wires.nodes.values():
        node._patience.gone(wires.now - 60.0)  # for so long there was no quorum
    wires.offer()
    gone = tuple(Elector(one) for one in sorted(endpoint(key) for key in KEYS[3:5]))
    assert [end.without for _, end in wires.ends(Completed)] == [gone] * 3


def test_peers_of_another_version_are_named_first_unless_weak_groups_go_on_without_them():
    place = Place(KEYS[:5], held=STRONG).hear(*KEYS[1:2])
    place.needed = (endpoint(KEYS[2]), endpoint(KEYS[3]))
    absent = (Elector(endpoint(KEYS[2])), Elector(endpoint(KEYS[3])))
    assert place.look() == Obstacle(Stage.VERSIONS, 2, absent, Whose.OTHERS)

    place = Place(KEYS[:7], held=STRONG).hear(*KEYS[1:3]).fail(PATIENT_ROUNDS, PATIENT_S)
    place.needed = (endpoint(KEYS[3]),)
    assert place.look().stage is Stage.WILLING
