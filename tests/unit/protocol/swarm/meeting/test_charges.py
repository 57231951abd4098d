"""Members keep each other's counts of charges and give them back: a key restored alone does not go on."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from protocol.actions import Action, Completed, KeepCharged, LedgerBehind, Send, Spend
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.swarm.meeting import charges
from protocol.swarm.node import Node
from protocol.wire import signing
from protocol.wire.limits import MAX_CHARGES
from protocol.wire.messages import ChargeCount, Charged, Hello, Key, Message, Reminder, Share
from tests.parts import NOW, announce, endpoint, members, outbox, rand, settings, state, stranger
from tests.wires import INITIAL, Wires

KEYS = members(4)
ONE, TWO, THREE, FOUR = KEYS
BUDGET = "digits"
NOTHING, TWO_CHARGES = ChargeCount(), ChargeCount(2, 0)
MASKED = MaskedSettings(4.0, None, 0)


def swarm(count: int = 3, **changes) -> Wires:
    return Wires(KEYS[:count], **{"budget": BUDGET, **changes})


def of(key: NodeKey, *count: int, budget: str = BUDGET) -> Charged:
    return signing.sign(Charged(key.public, budget, ChargeCount(*count)), key)


def charge(wires: Wires, key: NodeKey, *count: int) -> Wires:
    """The ledger of a node has this count from now on."""
    wires.carry_out(endpoint(key), wires[key].charged(ChargeCount(*count)))
    return wires.quiet()


def kept(wires: Wires, key: NodeKey) -> dict[Key, Charged]:
    return wires[key]._state.counts


def told(wires: Wires, kind: type[Action]) -> list[tuple[str, Action]]:
    return [(where, action) for where, action in wires.told if isinstance(action, kind)]


def restarted(wires: Wires, key: NodeKey, charged: ChargeCount = NOTHING, **changes) -> list[Action]:
    """Starts a node again, whose ledger has this count; returns what it does first."""
    own = {"seeds": tuple(map(endpoint, wires.keys)), "budget": BUDGET, **changes}
    where = state(held=INITIAL, charged=charged)
    again = Node(settings(key, instance=b"again".ljust(16), **own), where, {}, rand(42))
    wires.nodes[endpoint(key)] = again
    return again.open(wires.now)


def sent(actions: Iterable[Action], kind: type[Message]) -> list[Message]:
    return [m for a in actions if isinstance(a, Send) for m in a.messages if isinstance(m, kind)]


# -- a count that rises --------------------------------------------------------------------------------


def test_a_count_that_rises_is_told_once_to_each_live_member_who_keeps_the_newest():
    wires = swarm().open()
    charge(wires, TWO, 1, 0)
    charge(wires, TWO, 1, 1)
    for key in (ONE, THREE):
        assert kept(wires, key) == {TWO.public: of(TWO, 1, 1)}
    assert told(wires, KeepCharged) == [
        (endpoint(key), KeepCharged(of(TWO, *count)))
        for count in ((1, 0), (1, 1))
        for key in sorted((ONE, THREE), key=lambda one: one.public)
    ]
    assert wires[TWO].charged(ChargeCount(1, 1)) == wires[TWO].charged(ChargeCount(1, 0)) == []
    assert not wires.errors


def test_a_count_goes_to_nobody_who_is_not_reached():
    wires = swarm().open()
    wires.carry_out(endpoint(TWO), wires[TWO].unreachable(endpoint(ONE), "silent", NOW))
    assert outbox(wires[TWO].charged(ChargeCount(1, 0)), endpoint(ONE)) == []


def test_who_is_in_the_session_is_told_of_its_charge_even_if_it_seems_to_be_away():
    """Its coordinator reaches it, and the offer is for it, too."""
    wires = swarm()
    wires.dropped = lambda _from, _to, message: isinstance(message, Share)
    wires.open().offer()
    wires[TWO]._members.suspect(THREE.public)
    assert THREE.public not in wires[TWO]._members.live
    assert of(TWO, 1, 0) in outbox(wires[TWO].charged(ChargeCount(1, 0)), endpoint(THREE))


def test_a_longer_ledger_than_a_message_holds_counts_as_one_of_that_length():
    wires = charge(swarm().open(), TWO, MAX_CHARGES + 7, 1)
    assert kept(wires, ONE) == {TWO.public: of(TWO, MAX_CHARGES, 1)}
    wires.carry_out(endpoint(TWO), restarted(wires, TWO, ChargeCount(MAX_CHARGES + 7, 1)))
    wires.quiet()
    assert not told(wires, LedgerBehind)


def test_without_a_budget_nobody_says_anything_of_charges():
    wires, said = swarm(budget=""), []
    wires.dropped = lambda _from, _to, message: said.append(type(message)) or False
    wires.open().offer()
    assert len(wires.ends(Completed)) == 3
    charge(wires, TWO, 0, 1)  # the mark of an offer without noise
    assert not {Charged, Reminder} & set(said)
    wires.hand(endpoint(ONE), of(TWO, 1, budget=""), endpoint(TWO))
    assert "another budget" in str(wires.errors.pop())
    assert kept(wires, ONE) == {}


# -- a ledger that was lost ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [ChargeCount(), ChargeCount(1, 9)], ids=["lost", "older"])
def test_a_node_whose_ledger_lacks_a_charge_is_told_before_it_has_joined(count: ChargeCount):
    wires = charge(swarm().open(), THREE, 2, 0)
    restarted(wires, THREE, count)
    answer = wires[ONE].receive(Hello(announce_again(), rand(1)[:16], True, "{}"), THREE.public, NOW)
    first, *_, hello = outbox(answer, endpoint(THREE))
    assert (first, type(hello)) == (Reminder(b"again".ljust(16), (of(THREE, 2, 0),)), Hello)
    assert wires[THREE].receive(first, ONE.public, NOW) == [LedgerBehind(TWO_CHARGES, count)]
    assert wires[THREE]._discovery.joining


def announce_again():
    return announce(THREE, instance=b"again".ljust(16), epoch=9, base=INITIAL)


@pytest.mark.parametrize("count", [TWO_CHARGES, ChargeCount(3, 1)])
def test_a_node_that_has_its_ledger_goes_on_after_a_restart(count: ChargeCount):
    wires = charge(swarm().open(), THREE, 2, 0)
    wires.carry_out(endpoint(THREE), restarted(wires, THREE, count))
    wires.quiet().offer()
    assert not told(wires, LedgerBehind)
    assert not wires.errors
    assert len(wires.ends(Completed)) == 3
    assert kept(wires, ONE)[THREE.public].count == count, "a start shows its count, too"


def test_who_shows_a_lower_count_is_given_the_higher_one_that_is_kept():
    wires = charge(swarm().open(), TWO, 2, 0)
    for lower in (of(TWO, 1, 0), of(TWO, 1, 9)):
        back = outbox(wires[ONE].receive(lower, TWO.public, NOW), endpoint(TWO))
        assert back == [Reminder(bytes(16), (of(TWO, 2, 0),))]
    assert wires[ONE].receive(of(TWO, 2, 0), TWO.public, NOW) == []
    assert kept(wires, ONE) == {TWO.public: of(TWO, 2, 0)}
    wires[ONE]._members.forget(TWO.public)
    assert wires[ONE].receive(of(TWO, 1, 0), TWO.public, NOW) == [], "nobody knows where it is"


def test_a_peer_is_reminded_once_a_start_and_again_if_it_asks_or_was_lost():
    wires = swarm().open()
    one, news = wires[ONE], Hello(announce(TWO, base=INITIAL), bytes(16), False, "")

    def reminders() -> int:
        return len(sent(one.receive(news, TWO.public, NOW), Reminder))

    assert reminders() == 0
    one.reconnected(endpoint(TWO), NOW)
    assert (reminders(), reminders()) == (1, 0)
    one.unreachable(endpoint(TWO), "silent", NOW)
    assert (reminders(), reminders()) == (1, 0)
    asked = one.receive(replace(news, wants_reply=True), TWO.public, NOW)
    assert len(sent(asked, Reminder)) == 1


# -- what is not believed ------------------------------------------------------------------------------

FORGED = replace(of(TWO, 9, 0), signature=bytes(64))
OTHERS = signing.sign(replace(of(TWO, 9, 0), signature=b""), ONE)
CHANGED = replace(of(TWO, 9, 0), count=ChargeCount(99, 0))
ELSEWHERE = of(TWO, 9, 0, budget="agreement on digits")


@pytest.mark.parametrize(
    ("charged", "by"),
    [
        (FORGED, TWO),
        (OTHERS, TWO),
        (CHANGED, TWO),
        (ELSEWHERE, TWO),
        (of(THREE, 9, 0), TWO),
        (signing.sign(replace(FORGED, signature=b""), THREE), THREE),
        (of(ONE, 9, 0), ONE),
        (of(ONE, 9, 0), TWO),
        (of(TWO, 9, 0), None),
        (of(stranger(), 9, 0), stranger()),
    ],
    ids=[
        "unsigned",
        "signed by another",
        "changed",
        "another budget",
        "of another",
        "of another, signed by who brings it",
        "its own, on its own link",
        "its own",
        "on a link of nobody",
        "not on the list",
    ],
)
def test_a_count_that_its_owner_does_not_sign_and_bring_is_not_kept(charged: Charged, by: NodeKey | None):
    wires = swarm(allow=frozenset(key.public for key in KEYS)).open()
    with pytest.raises(RemoteProtocolError):
        wires[ONE].receive(charged, None if by is None else by.public, NOW)
    assert kept(wires, ONE) == {}
    assert wires[ONE]._state.banned == {}


def test_the_count_of_a_banned_key_is_not_kept():
    wires = swarm().open()
    wires[ONE]._state.banned[TWO.public] = ()
    with pytest.raises(RemoteProtocolError, match="may not take part"):
        wires[ONE].receive(of(TWO, 1, 0), TWO.public, NOW)


@pytest.mark.parametrize(
    "charged",
    [FORGED, OTHERS, CHANGED, ELSEWHERE, of(THREE, 9, 0)],
    ids=["unsigned", "signed by another", "changed", "another budget", "of another"],
)
def test_a_reminder_without_this_nodes_own_signature_counts_for_nothing(charged: Charged):
    """And its sender has not reminded it: nothing begins with that one."""
    wires = swarm().open()
    wires[TWO]._charges._reminders.clear()
    with pytest.raises(RemoteProtocolError):
        wires[TWO].receive(Reminder(bytes(16), (charged,)), ONE.public, NOW)
    assert wires[TWO]._charges.lacks(ONE.public)


def test_a_reminder_for_an_earlier_start_is_none():
    wires = swarm().open()
    wires[TWO]._charges._reminders.clear()
    late = Reminder(b"earlier".ljust(16), (of(TWO, 9, 0),))
    assert wires[TWO].receive(late, ONE.public, NOW) == []
    assert wires[TWO]._charges.lacks(ONE.public)


# -- the first group -----------------------------------------------------------------------------------


def first_group(count: int, masked: MaskedSettings | None) -> Wires:
    """The last node, restarted alone, offers with all others; what the only keeper tells it comes late."""
    last, own = KEYS[count - 1], {"masked": masked, "min_participants": count}
    wires = charge(swarm(count, **own).open(), last, 2, 0)
    for key in KEYS[:count]:
        if key is not TWO:
            kept(wires, key).clear()
    wires.dropped = lambda sender, to, message: (
        (sender, to) == (endpoint(TWO), endpoint(last)) and isinstance(message, Reminder | Hello)
    )
    wires.carry_out(endpoint(last), restarted(wires, last, **own))
    return wires.quiet().tick(5.0).offer()


@pytest.mark.parametrize(("count", "masked"), [(3, None), (4, MASKED)], ids=["shares", "joins"])
def test_nothing_is_spent_before_every_member_of_the_group_has_reminded_it(
    count: int, masked: MaskedSettings | None
):
    wires = first_group(count, masked)
    last = endpoint(KEYS[count - 1])
    assert last not in [where for where, _ in told(wires, Spend)]
    assert any(isinstance(error, TooEarly) for error in wires.errors), "so that it is sent again"
    wires.dropped = lambda *_: False
    wires.tick(4.0)  # it asks again
    assert (last, LedgerBehind(TWO_CHARGES, NOTHING)) in wires.told
    assert last not in [where for where, _ in told(wires, Spend)]


def test_a_share_that_comes_before_its_group_is_not_held_for_who_has_not_reminded_it():
    wires = swarm().open().offer(THREE)
    share = Share(b"s" * 32, TWO.public, THREE.public, 0, b"sealed")
    wires[THREE]._charges._reminders.clear()
    with pytest.raises(TooEarly, match="before its REMINDER"):
        wires[THREE].receive(share, TWO.public, NOW)
    wires[THREE].receive(Reminder(bytes(16), ()), TWO.public, NOW)
    assert wires[THREE].receive(share, TWO.public, NOW) == []


def test_members_of_a_group_that_never_met_remind_each_other_first():
    wires = swarm().open()
    for key in KEYS[:3]:
        wires[key]._charges._reminded.clear()
        wires[key]._charges._reminders.clear()
    wires.offer()
    assert not wires.errors
    assert len(wires.ends(Completed)) == 3


def test_members_of_a_group_that_have_reminded_each_other_say_nothing_more():
    wires, said = swarm().open(), []
    wires.dropped = lambda _from, _to, message: said.append(type(message)) or False
    wires.offer()
    assert len(wires.ends(Completed)) == 3
    assert Reminder not in said


# -- how many ------------------------------------------------------------------------------------------


def test_only_so_many_counts_are_kept_and_the_one_that_changed_longest_ago_goes(monkeypatch):
    monkeypatch.setattr(charges, "MAX_KEYS", 2)
    wires = swarm(4).open()
    for key in (TWO, THREE, TWO):
        charge(wires, key, len(kept(wires, ONE)) + 1, 0)
    assert list(kept(wires, ONE)) == [THREE.public, TWO.public]
    (keep,) = wires[ONE].receive(of(FOUR, 1, 0), FOUR.public, NOW)
    assert keep == KeepCharged(of(FOUR, 1, 0), THREE.public)
    assert list(kept(wires, ONE)) == [TWO.public, FOUR.public]
    assert len(wires[ONE]._charges._reminded) == len(wires[ONE]._charges._reminders) == 2
