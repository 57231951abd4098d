"""The tracker: it introduces, refuses, closes groups and forgets, and accepts nothing else."""

import pytest

from protocol.actions import Named, Note, Notice, Reply
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_names
from protocol.swarm.meeting.clock_skew import Skew
from protocol.swarm.meeting.tracker import FULL, Tracker
from protocol.wire.ids import NO_ELECTORS
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Accepted, Electors, Group, Hello, LeftOut, Refused, Roster
from tests.parts import (
    COUNTER,
    NOW,
    PARAMETERS,
    announce,
    base,
    endpoint,
    heard,
    kinds,
    members,
    only,
    outbox,
    ready,
    resigned,
    roster_of,
    stranger,
)

KEYS = members(4)
TRACKER = stranger()
NONCE = b"n" * 16


def tracker(min_peers: int = 3, allow: frozenset[bytes] | None = None) -> Tracker:
    return Tracker(TRACKER, min_peers, allow)


def hello(key, wants_reply: bool = True, **changes) -> Hello:
    return Hello(announce(key, **changes), NONCE, wants_reply, PARAMETERS)


def ask(key, nonce: int = 0, **changes):
    return ready(key, TRACKER.public, nonce, **changes)


def notices(actions) -> list[tuple[Note, str]]:
    return [(action.kind, action.who) for action in actions if isinstance(action, Notice)]


def test_a_hello_is_answered_with_the_others_of_its_task():
    held = tracker()
    heard(held, hello(KEYS[0]), NOW)
    heard(held, hello(KEYS[1], task="other"), NOW)
    actions = heard(held, hello(KEYS[2]), NOW)

    expected = roster_of(TRACKER, NONCE, (announce(KEYS[0]),), int(NOW * 1000))
    assert outbox(actions, endpoint(KEYS[2])) == [expected]
    assert notices(actions) == [(Note.JOINED, endpoint(KEYS[2]))]
    assert held.peers == 3


def test_a_key_that_is_not_on_the_list_is_refused():
    held = tracker(allow=frozenset({KEYS[0].public}))
    (refused,) = only(heard(held, hello(KEYS[1]), NOW), Reply).messages

    assert isinstance(refused, Refused)
    assert "allow-list" in refused.reason
    with pytest.raises(RemoteProtocolError, match="allow-list"):
        heard(held, ask(KEYS[1]), NOW)
    assert heard(held, ask(KEYS[0]), NOW)
    assert heard(held, hello(KEYS[0]), NOW)


def test_it_counts_with_the_electors_that_nodes_tell_it_of():
    held, names = tracker(), of_names(endpoint(key) for key in KEYS[:3])
    told = Electors(names.members, names.least)
    for key in KEYS[:3]:
        heard(held, hello(key), NOW)
    assert held.receive(told, KEYS[0].public, NOW) == []
    asked = {"electors": names.digest, "weak": False}
    actions = [action for key in KEYS[:2] for action in heard(held, ask(key, **asked), NOW)]
    actions += heard(held, ask(KEYS[3], **asked), NOW)

    assert [m for key in KEYS for m in outbox(held.tick(NOW + 6), endpoint(key)) if isinstance(m, Group)]
    with pytest.raises(RemoteProtocolError, match="a tracker takes no Electors"):
        held.receive(told, stranger().public, NOW)


def test_it_groups_peers_apart_that_ask_for_it():
    held, asking = tracker(), [ask(key) for key in KEYS[:4]]
    for key in KEYS[:4]:
        heard(held, hello(key), NOW)
    said = LeftOut(asking[0].nonce, (KEYS[3].public,))
    assert held.receive(said, KEYS[0].public, NOW) == []
    groups = [
        m for each in asking for a in heard(held, each, NOW) for m in a.messages if isinstance(m, Group)
    ]

    assert {tuple(one.key for one in group.readys) for group in groups} == {
        tuple(key.public for key in KEYS[:3])
    }
    with pytest.raises(RemoteProtocolError, match="a tracker takes no LeftOut"):
        held.receive(said, stranger().public, NOW)


def test_it_names_the_electors_of_a_first_base_once_over_its_restarts():
    held = Tracker(TRACKER, 3, None, {})
    asked = {"electors": NO_ELECTORS, "weak": False}
    actions = [action for key in KEYS[:3] for action in heard(held, ask(key, **asked), NOW)]
    named = only(actions, Named)
    three = tuple(key.public for key in KEYS[:3])
    assert named == Named(*announce(KEYS[0]).swarm, three)

    again = Tracker(TRACKER, 3, None, {(named.task, named.parameters): named.electors})
    for key in KEYS[1:]:
        actions = heard(again, ask(key, **asked, counter=COUNTER + 1), NOW + 1)
    (group,) = [m for m in outbox(actions, endpoint(KEYS[1])) if isinstance(m, Group)]
    assert group.electors == three
    assert "Named" not in kinds(actions)


def test_a_follower_is_introduced_and_neither_waited_for_nor_counted():
    held = tracker()
    for key in KEYS[:1]:
        heard(held, hello(key, following=True), NOW)
    for key in KEYS[1:3]:
        heard(held, ask(key), NOW)
    (roster,) = outbox(heard(held, hello(KEYS[3]), NOW), endpoint(KEYS[3]))
    groups = outbox(heard(held, ask(KEYS[3], counter=COUNTER + 1), NOW), endpoint(KEYS[1]))

    assert announce(KEYS[0], following=True) in roster.known
    assert held.peers == 4
    assert [tuple(one.key for one in group.readys) for group in groups] == [
        tuple(key.public for key in KEYS[1:])
    ]
    with pytest.raises(RemoteProtocolError, match="follows: it offers nothing"):
        heard(held, ask(KEYS[0], following=True, counter=COUNTER + 2), NOW)


def test_a_swarm_has_no_more_peers_than_a_group_can_have():
    """The next one is refused until somebody leaves; members and other swarms are served as before."""
    held, many = tracker(), members(MAX_MEMBERS + 1)
    *inside, late = many
    for key in inside:
        heard(held, hello(key), NOW)
    (refused,) = only(heard(held, hello(late), NOW), Reply).messages
    assert refused == Refused(NONCE, FULL)
    assert FULL == "64 peers are in this swarm, as many as can be; larger swarms come later"
    with pytest.raises(RemoteProtocolError, match="larger swarms come later"):
        heard(held, ask(late), NOW)
    assert held.peers == MAX_MEMBERS
    assert outbox(heard(held, ask(inside[0]), NOW), endpoint(inside[0])) == [Accepted(bytes(16))]
    assert heard(held, hello(late, parameters=b"o" * 32), NOW)
    heard(held, hello(inside[1], wants_reply=False, leaving=True, counter=COUNTER + 1), NOW)
    assert isinstance(outbox(heard(held, hello(late), NOW), endpoint(late))[0], Roster)


def test_the_trackers_own_floor_counts():
    held = tracker(min_peers=4)
    for key in KEYS[:3]:
        heard(held, ask(key), NOW)

    assert outbox(held.tick(NOW + 20), endpoint(KEYS[0])) == []
    assert held.deadline == NOW + 30


def test_a_member_behind_is_shown_who_is_ahead():
    held = tracker()
    ahead = announce(KEYS[0], base=base(1, 1))
    heard(held, Hello(ahead, NONCE, True, PARAMETERS), NOW)
    _, roster = outbox(heard(held, ask(KEYS[1]), NOW), endpoint(KEYS[1]))

    assert roster == roster_of(TRACKER, bytes(16), (ahead,), int(NOW * 1000))


def test_who_leaves_is_told_once():
    held = tracker()
    heard(held, hello(KEYS[0]), NOW)
    gone = hello(KEYS[0], wants_reply=False, leaving=True, counter=COUNTER + 1)

    left = Notice(Note.LEFT, endpoint(KEYS[0]), KEYS[0].public.hex()[:8])
    assert heard(held, gone, NOW) == [left]
    assert notices(heard(held, gone, NOW)) == []
    assert held.peers == 0


def test_who_falls_silent_is_told_and_forgotten():
    held = tracker()
    heard(held, hello(KEYS[0]), NOW)

    assert notices(held.tick(NOW + 30)) == [(Note.LOST, endpoint(KEYS[0]))]
    assert held.peers == 0


def test_a_peer_that_can_not_be_reached_is_not_waited_for():
    held = tracker()
    for key in KEYS:
        heard(held, hello(key), NOW)
    for key in KEYS[:3]:
        heard(held, ask(key, counter=COUNTER + 1), NOW)
    actions = held.unreachable(endpoint(KEYS[3]), "connection refused", NOW)

    assert notices(actions) == [(Note.LOST, endpoint(KEYS[3]))]
    assert isinstance(outbox(actions, endpoint(KEYS[0]))[0], Group)
    assert held.unreachable("nowhere:1", "no such host", NOW) == []
    assert held.reconnected(endpoint(KEYS[3]), NOW) == []


@pytest.mark.parametrize("message", [hello(KEYS[0]), ask(KEYS[0])])
@pytest.mark.parametrize("by", [None, KEYS[1].public])
def test_who_says_something_in_the_name_of_another_is_not_heard(message, by):
    held = tracker()
    with pytest.raises(RemoteProtocolError, match="on the link of another"):
        held.receive(message, by, NOW)
    assert held.peers == 0


def test_who_comes_back_with_an_earlier_epoch_is_shown_how_far_it_was():
    held = tracker()
    heard(held, hello(KEYS[0], epoch=5, instance=b"5" * 16), NOW)
    (roster,) = outbox(heard(held, hello(KEYS[0], epoch=2), NOW), endpoint(KEYS[0]))

    assert roster.known == (announce(KEYS[0], epoch=5, instance=b"5" * 16),)


def test_a_tracker_says_what_its_clock_shows():
    held = tracker()
    assert held.clock(600.5, 0.0) == []
    assert held.clocks.set_s == 600.5
    (roster,) = outbox(heard(held, hello(KEYS[0]), NOW), endpoint(KEYS[0]))

    assert roster.clock_ms == int((NOW + 600.5) * 1000)


def test_who_is_listed_or_else_announced_is_a_member():
    assert tracker(allow=frozenset({KEYS[0].public})).is_member(KEYS[0].public)
    assert not tracker(allow=frozenset({KEYS[0].public})).is_member(KEYS[1].public)
    held = tracker()
    assert not held.is_member(KEYS[0].public)
    heard(held, hello(KEYS[0]), NOW)
    assert held.is_member(KEYS[0].public)


def test_a_tracker_shows_the_clocks_of_who_is_here():
    held = tracker()
    for key, by_s in ((KEYS[0], 0), (KEYS[1], 100)):
        said = Hello(announce(key), NONCE, False, PARAMETERS, clock_ms=int(1000 * (NOW + by_s)))
        heard(held, said, NOW)
    assert held.clocks.ahead == {
        key.public: Skew(endpoint(key), by_s) for key, by_s in ((KEYS[0], 0), (KEYS[1], 100))
    }
    held.tick(NOW + 30)
    assert held.clocks.ahead == {}


def test_an_older_announcement_leaves_no_trace():
    held = tracker()
    heard(held, hello(KEYS[0], counter=COUNTER + 1), NOW)
    heard(held, hello(KEYS[0], endpoint="127.0.0.1:1"), NOW)

    assert held._endpoints == {KEYS[0].public: endpoint(KEYS[0])}


@pytest.mark.parametrize("message", [Accepted(NONCE), Roster(KEYS[0].public, NONCE, ())])
def test_a_tracker_takes_nothing_but_hellos_and_readys(message):
    with pytest.raises(RemoteProtocolError, match="a tracker takes no"):
        heard(tracker(), message, NOW)


def test_forged_hellos_and_readys_are_refused():
    held = tracker()
    one = ask(KEYS[0])
    forged = resigned(one.announce, KEYS[1])
    for message in (
        Hello(forged, NONCE, True, ""),
        resigned(one, KEYS[0], announce=forged),
        resigned(one, KEYS[1]),
    ):
        with pytest.raises(RemoteProtocolError, match="signature"):
            heard(held, message, NOW)
    assert held.peers == 0


def test_who_is_here_and_what_a_group_waits_for_can_be_asked():
    held = tracker()
    heard(held, hello(KEYS[3], task="other"), NOW)
    for key in KEYS[:2]:
        heard(held, ask(key), NOW)
    heard(held, hello(KEYS[2], following=True), NOW)
    held.unreachable(endpoint(KEYS[2]), "connection refused", NOW)
    digits, other = held.waiting

    assert (digits.task, digits.needed, digits.groups, other.task) == ("digits", 3, 0, "other")
    assert [announced.key for announced in digits.announced] == [key.public for key in KEYS[:3]]
    assert digits.ready == {key.public for key in KEYS[:2]}
    assert digits.unreachable == {KEYS[2].public}
    assert other.ready == frozenset()
