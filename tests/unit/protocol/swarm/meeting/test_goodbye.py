"""A node that leaves says why, for the others' owners; nothing else depends on it."""

from dataclasses import replace

import pytest

from protocol.actions import Note, Notice
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.messages import Goodbye, Hello, Parting, Refused
from tests.parts import COUNTER, NOW, announce, endpoint, members, outbox, stranger
from tests.wires import Wires

KEYS = members(3)
ONE, TWO, THREE = KEYS
TRACKER = "127.0.0.1:9"
OF_A_STRANGER = signing.sign(Goodbye(stranger().public, bytes(16), Parting.ENDED), stranger())


def swarm() -> Wires:
    return Wires(KEYS).open()


def goodbye_of(wires: Wires, why: int = Parting.STOPPED, **changes) -> Goodbye:
    said = Goodbye(TWO.public, wires[TWO]._settings.instance, why)
    return signing.sign(replace(said, **changes), TWO)


def told(wires: Wires, kind: Note) -> list[tuple[str, Notice]]:
    return [(w, a) for w, a in wires.told if isinstance(a, Notice) and a.kind is kind]


def contact_of_two(wires: Wires):
    (found,) = (each for each in wires[ONE].known_peers if each.endpoint == endpoint(TWO))
    return found.contact, found.remarks.parting


@pytest.mark.parametrize("why", [*Parting, None])
def test_who_leaves_is_told_once_with_the_reason_at_all_others(why):
    wires = swarm()
    wires.carry_out(endpoint(TWO), wires[TWO].leave(NOW, *([] if why is None else [why])))
    wires.quiet()
    left = Notice(Note.LEFT, endpoint(TWO), TWO.public.hex()[:8], why)
    assert sorted(told(wires, Note.LEFT), key=lambda one: one[0]) == sorted(
        ((endpoint(ONE), left), (endpoint(THREE), left)), key=lambda one: one[0]
    )
    assert contact_of_two(wires) == ("left", why)
    assert not wires.errors


def test_the_goodbye_comes_before_the_leaving_hello_and_not_to_a_tracker():
    wires = swarm()
    first, then = outbox(wires[TWO].leave(NOW, Parting.ENDED), endpoint(ONE))
    assert (type(first), first.why, type(then), then.announce.leaving) == (Goodbye, 1, Hello, True)
    alone = Wires(KEYS[:1], tracker=TRACKER)
    assert [type(each) for each in outbox(alone[ONE].leave(NOW, Parting.ENDED), TRACKER)] == [Hello]


def test_a_goodbye_alone_changes_nothing_that_anything_depends_on():
    wires = swarm()
    wires.hand(endpoint(ONE), goodbye_of(wires), endpoint(TWO))
    assert contact_of_two(wires) == ("reachable", None)
    assert not told(wires, Note.LEFT)


def test_who_comes_back_has_not_left_for_any_reason():
    wires = swarm()
    wires.hand(endpoint(ONE), goodbye_of(wires), endpoint(TWO))
    back = announce(TWO, base=wires[ONE].base, counter=COUNTER + 10, epoch=9)
    wires.hand(endpoint(ONE), Hello(back, bytes(16), False, ""), endpoint(TWO))
    gone = replace(back, counter=COUNTER + 11, leaving=True)
    wires.hand(endpoint(ONE), Hello(signing.sign(gone, TWO), bytes(16), False, ""), endpoint(TWO))
    assert [notice.parting for _, notice in told(wires, Note.LEFT)] == [None]


def test_a_reason_of_a_later_version_is_none():
    wires = swarm()
    wires.hand(endpoint(ONE), goodbye_of(wires, 255), endpoint(TWO))
    assert wires[ONE]._members.parting(TWO.public) is None
    assert not wires.errors


@pytest.mark.parametrize(
    ("said", "by", "why"),
    [
        (goodbye_of, THREE, "on the link of another"),
        (lambda wires: replace(goodbye_of(wires), why=4), TWO, "bad goodbye signature"),
        (lambda wires: goodbye_of(wires, instance=b"another start .."), TWO, "nobody who is here"),
        (lambda _: OF_A_STRANGER, stranger(), "nobody who is here"),
    ],
)
def test_a_goodbye_that_is_not_the_sender_s_own_is_dropped(said, by, why):
    wires = swarm()
    with pytest.raises(RemoteProtocolError, match=why):
        wires[ONE].receive(said(wires), by.public, NOW)
    assert wires[ONE]._members.parting(TWO.public) is wires[ONE]._members.parting(by.public) is None


def test_who_was_greeted_and_has_not_answered_is_told_too_as_it_may_know_this_node():
    wires = Wires(KEYS)
    wires.dropped = lambda _from, to, _message: to == endpoint(TWO)
    wires.carry_out(endpoint(TWO), wires[TWO].open(NOW))
    wires.quiet()
    assert [type(each) for each in outbox(wires[TWO].leave(NOW, Parting.DIVERGED), endpoint(ONE))] == [
        Goodbye,
        Hello,
    ]
    wires.carry_out(endpoint(TWO), wires[TWO].leave(NOW, Parting.DIVERGED))
    wires.quiet()
    assert [notice.parting for _, notice in told(wires, Note.LEFT)] == [Parting.DIVERGED] * 2


def test_who_could_not_be_reached_or_refused_is_told_nothing():
    wires = Wires(KEYS)
    wires[TWO].open(NOW)
    wires[TWO].unreachable(endpoint(ONE), "connection refused", NOW)
    refusal = Refused(wires[TWO]._discovery.greetings[endpoint(THREE)].nonce, "no")
    wires[TWO].receive(refusal, THREE.public, NOW)
    assert wires[TWO].leave(NOW, Parting.ENDED) == []
