"""Whole nodes of which one is in two groups at once: they ask each other, and who learns of it joins none."""

from __future__ import annotations

from dataclasses import replace

from protocol.actions import Completed, Fault, Strike
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import of_names
from protocol.wire.messages import Group, Head, Heard, Message, Ready, Stalled
from tests.parts import endpoint, group_of, members, outbox, ready
from tests.wires import INITIAL, Wires

KEYS = members(5)
ONE, TWO, THREE, FOUR, FIVE = KEYS
NAMES = of_names((endpoint(key) for key in KEYS), 0)


def rival(coordinator: NodeKey, *keys: NodeKey) -> Group:
    asked = {"electors": NAMES.digest, "base": INITIAL, "epoch": 0, "counter": 1}
    return group_of((ready(key, coordinator.public, **asked) for key in keys), coordinator)


class Three(Wires):
    """Five nodes. One, two and three offer; what they ask the others is kept."""

    def __init__(self, **changes: object) -> None:
        super().__init__(KEYS, leave_out=4, liars=0, electorate=NAMES, **changes)
        self.sent: list[tuple[str, str, Message]] = []
        self.dropped = self._keep
        self.open().offer(ONE, TWO, THREE).tick(6.0)

    def _keep(self, sender: str, to: str, message: Message) -> bool:
        self.sent.append((sender, to, message))
        return isinstance(message, Heard)

    def asked(self, by: NodeKey) -> list[tuple[str, Head]]:
        return [
            (to, each) for sender, to, each in self.sent if sender == endpoint(by) and isinstance(each, Head)
        ]

    def answer(self, to: NodeKey, *groups: Group) -> None:
        """Four and five answer a member; four names these groups."""
        sid = self.asked(to)[-1][1].sid
        self.hand(endpoint(to), Heard(sid, groups), endpoint(FOUR))
        self.hand(endpoint(to), Heard(sid, groups), endpoint(FIVE))
        self.quiet()

    def said(self, by: NodeKey, kind: type) -> list[Message]:
        return [each for sender, _, each in self.sent if sender == endpoint(by) and isinstance(each, kind)]

    def held_against(self, key: NodeKey) -> list[Fault]:
        return [each.fault for _, each in self.told if isinstance(each, Strike) and each.key == key.public]


def named(wires: Three, by: NodeKey) -> tuple[Group, ...]:
    """The groups that a node names when four asks it."""
    actions = wires[by].receive(Head(bytes(32), INITIAL.anchor), FOUR.public, wires.now)
    (heard,) = outbox(actions, endpoint(FOUR))
    return heard.groups


def test_each_member_asks_each_elector_outside_and_joins_once_both_have_answered():
    wires = Three()
    for key in (ONE, TWO, THREE):
        assert sorted(to for to, _ in wires.asked(key)) == sorted(map(endpoint, (FOUR, FIVE)))
        assert wires[key].phase == "group"
        wires.hand(endpoint(key), wires.said(ONE, Group)[0])  # another member passes it on
    for key in (ONE, TWO, THREE):
        wires.answer(key)

    assert {where for where, _ in wires.ends(Completed)} == {endpoint(key) for key in (ONE, TWO, THREE)}
    assert wires.errors == []


def test_whoever_is_asked_names_the_group_that_it_asks_about_or_is_in():
    wires = Three()
    own = wires.said(ONE, Group)[0]
    assert named(wires, TWO) == (own,)
    wires.answer(TWO)
    assert wires[TWO].phase == "shares"
    assert named(wires, TWO) == (own,)
    assert named(wires, FIVE) == ()


def test_nobody_who_is_not_known_asks_or_answers():
    wires = Three()
    for message in (Head(bytes(32), 0), Heard(bytes(32), ())):
        wires.hand(endpoint(TWO), message, "127.0.0.1:1")
    assert [str(error) for error in wires.errors] == [
        "about a group, from a peer that this node does not accept"
    ] * 2


def test_a_coordinator_of_two_is_passed_over_and_nobody_joins():
    wires = Three()
    wires.answer(TWO, rival(ONE, ONE, FOUR, FIVE))

    assert wires[TWO].phase == "group"
    assert wires.said(TWO, Stalled)
    assert wires.held_against(ONE) == [Fault.IN_TWO]
    readys = len(wires.said(TWO, Ready))
    wires.tick(2.0, TWO)
    assert len(wires.said(TWO, Ready)) == readys, "it does not ask that coordinator again"


def test_of_rivals_with_two_coordinators_whoever_is_in_both_is_held_to_blame():
    wires = Three()
    wires.answer(TWO, rival(FOUR, THREE, FOUR, FIVE))

    assert wires[TWO].phase == "group"
    assert len(wires.held_against(THREE)) == 1
    assert not wires.said(TWO, Stalled)
    readys = len(wires.said(TWO, Ready))
    wires.tick(1.0, TWO)
    assert len(wires.said(TWO, Ready)) == readys
    wires.tick(1.0, TWO)
    assert len(wires.said(TWO, Ready)) > readys, "a moment later it is ready again"


def test_a_group_whose_ready_is_void_by_then_is_not_joined():
    wires = Three()
    wires.carry_out(endpoint(TWO), wires[TWO].unreachable(endpoint(ONE), "refused", wires.now))
    wires.answer(TWO)

    assert wires[TWO].phase == "group"
    assert wires.ends(Completed) == []


def test_a_coordinator_that_tells_some_members_of_another_group_is_blamed():
    wires = Three()
    wires.answer(TWO)
    own = wires.said(ONE, Group)[0]
    other = group_of((one for one in own.readys if one.key != TWO.public), ONE)
    wires.hand(endpoint(TWO), replace(other, signature=own.signature), endpoint(THREE))
    assert "bad group signature" in str(wires.errors.pop())
    wires.hand(endpoint(TWO), rival(ONE, ONE, THREE, FOUR), endpoint(THREE))
    assert "no offer is waiting" in str(wires.errors.pop()), "it has other READYs"
    assert wires.held_against(ONE) == []
    for _ in range(2):
        wires.hand(endpoint(TWO), other, endpoint(THREE))
    assert wires.held_against(ONE) == [Fault.IN_TWO]
    assert wires[TWO].phase == "shares", "it may have a result"
