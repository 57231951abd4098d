"""The peers that a node knows, in words for its owner: all possible states of contact."""

from protocol.swarm.inspection import Contact, KnownPeer, Remarks
from protocol.swarm.meeting.discovery import OTHER_SWARM, UNDER_TLS
from protocol.swarm.meeting.membership import REMEMBERED_ROUNDS
from protocol.swarm.node import Node
from protocol.wire.messages import Hello, Refused
from tests.parts import (
    COUNTER,
    NOW,
    PARAMETERS,
    announce,
    base,
    endpoint,
    heard,
    members,
    outbox,
    rand,
    roster_of,
    settings,
    state,
    stranger,
)

KEYS = members(4)
ONE, TWO, THREE, FOUR = (endpoint(key) for key in KEYS)
TRACKER = "127.0.0.1:9"


def opened(seeds=(TWO, THREE), round: int = 0, **changes) -> tuple[Node, list]:
    node = Node(settings(KEYS[0], seeds=seeds, **changes), state(round), {}, rand(0))
    return node, node.open(NOW)


def hello(key, **changes) -> Hello:
    return Hello(announce(key, **changes), bytes(16), False, PARAMETERS)


def seen(node: Node) -> dict[str, Contact]:
    return {found.endpoint: found.contact for found in node.known_peers}


def reasons(node: Node) -> list[tuple[Contact, str]]:
    return [(found.contact, found.remarks.why) for found in node.known_peers]


def test_before_anybody_answers_nobody_was_met():
    node, _ = opened()

    assert node.known_peers == tuple(
        KnownPeer(end, None, Contact.NOT_MET, None, False, False, Remarks()) for end in sorted((TWO, THREE))
    )


def test_who_said_hello_is_reachable_and_has_told_its_sums():
    node, _ = opened()
    heard(node, hello(KEYS[1], base=base(3), following=True), NOW)
    first = node.known_peers[0]

    assert first == KnownPeer(TWO, KEYS[1].public, Contact.REACHABLE, 3, True, False, Remarks())
    assert seen(node)[THREE] is Contact.NOT_MET


def test_who_can_not_be_reached_any_more_says_why_until_it_is_heard_again():
    node, _ = opened()
    heard(node, hello(KEYS[1]), NOW)
    node.unreachable(TWO, "connection refused", NOW + 1)

    assert node.known_peers[0] == KnownPeer(
        TWO, KEYS[1].public, Contact.UNREACHABLE, 0, False, False, Remarks("connection refused")
    )
    heard(node, hello(KEYS[1], counter=COUNTER + 2000), NOW + 2)
    assert (node.known_peers[0].contact, node.known_peers[0].remarks.why) == (Contact.REACHABLE, "")


def test_one_that_left_and_is_back_with_another_tls_says_so():
    node, _ = opened(seeds=(TWO,))
    heard(node, hello(KEYS[1]), NOW)
    heard(node, hello(KEYS[1], leaving=True, counter=COUNTER + 1), NOW)
    assert seen(node)[TWO] is Contact.LEFT
    node.look_again(NOW)
    node.unreachable(TWO, UNDER_TLS, NOW)
    assert reasons(node) == [(Contact.UNREACHABLE, UNDER_TLS)]


def test_a_member_that_nobody_greeted_has_no_reason():
    node, _ = opened(seeds=())
    heard(node, hello(KEYS[3]), NOW)
    node._members.suspect(KEYS[3].public)

    assert reasons(node) == [(Contact.UNREACHABLE, "")]


def test_who_was_not_heard_for_long_is_silent():
    node, _ = opened()
    heard(node, hello(KEYS[1]), NOW)
    node._state.round = REMEMBERED_ROUNDS + 1

    assert seen(node)[TWO] is Contact.SILENT


def test_a_refusal_is_shown_with_its_reason():
    node, actions = opened(seeds=(TWO, THREE))
    (asked,) = outbox(actions, TWO)
    heard(node, Refused(asked.nonce, OTHER_SWARM, PARAMETERS), NOW)
    (refusing,) = (found for found in node.known_peers if found.endpoint == TWO)

    assert (refusing.contact, refusing.remarks.why) == (Contact.REFUSES, OTHER_SWARM)


def test_the_tracker_comes_first_of_those_that_are_no_members():
    node, actions = opened(seeds=(), tracker=TRACKER)
    node.unreachable(TRACKER, "connection refused", NOW)
    assert [(found.contact, found.is_tracker, found.remarks.why) for found in node.known_peers] == [
        (Contact.UNREACHABLE, True, "connection refused")
    ]

    (asked,) = outbox(actions, TRACKER)
    known = (announce(KEYS[1]),)
    heard(node, roster_of(stranger(), asked.nonce, known), NOW)
    assert [(found.endpoint, found.contact) for found in node.known_peers] == [
        (TWO, Contact.REACHABLE),
        (TRACKER, Contact.REACHABLE),
    ]


def test_an_endpoint_that_answered_and_is_nobodys_any_more_is_left_out():
    node, _ = opened(seeds=(TWO,))
    heard(node, hello(KEYS[1]), NOW)
    moved = hello(KEYS[1], endpoint=FOUR, counter=COUNTER + 1)
    heard(node, moved, NOW)

    assert seen(node) == {FOUR: Contact.REACHABLE}
