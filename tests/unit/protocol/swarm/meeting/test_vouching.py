"""Later members of an invited swarm: whose word is kept and passed on, who is met, and who is removed."""

from dataclasses import replace

import pytest

from protocol.actions import Completed, Failed, Send, Vouched
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.invitation.roster import Member, close_list, vouch_for
from protocol.swarm.meeting.vouching import MOST_OF_ONE
from protocol.swarm.node_state import Vouches
from protocol.wire import signing
from protocol.wire.endpoints import of_key
from protocol.wire.messages import Key, LeftOut, Message, Share, Sum, Vouch
from tests.parts import members, only, outbox
from tests.wires import Wires, hello, node

*OLD, LATE = members(5)
ONE, TWO, THREE, FOUR = OLD
STRANGER = NodeKey(bytes([7]) * 32)
ROSTER = close_list(ONE, [Member(f"site {n}", key.public) for n, key in enumerate(OLD)], b"", (), bytes(16))
SWARM = ROSTER.digest
OF_LATE = vouch_for(TWO, ROSTER, Member("late", LATE.public))


def allowed(*keys: NodeKey) -> frozenset[Key]:
    return frozenset(key.public for key in keys)


class Invited(Wires):
    """Nodes whose endpoints are their keys. LATE is there, and nobody but itself learns with it yet."""

    where = staticmethod(lambda key: of_key(key.public))

    def __init__(self, *keys: NodeKey) -> None:
        super().__init__(keys, allow=allowed(*OLD), vouches=Vouches(SWARM))

    def decide(self, key: NodeKey, allow: frozenset[Key], *known: Vouch, removed=frozenset()) -> None:
        """The owner of a node learns with these from now on."""
        change = self[key].change_members(allow, Vouches(SWARM, known, removed), self.now)
        self.carry_out(self.where(key), change)
        self.quiet()

    def vouched(self, key: NodeKey) -> list[Vouch]:
        """The words that a node has kept for its owner."""
        return [a.vouch for where, a in self.told if where == self.where(key) and isinstance(a, Vouched)]

    def sums(self) -> list[tuple[Key, ...]]:
        """Who took part in each sum, as the first node that completed it knows."""
        found = {action.sid: action.contributors for _, action in self.ends(Completed)}
        return list(found.values())


def by_key(key: NodeKey, **changes):
    """A node of the swarm, alone."""
    own = {"endpoint": of_key(key.public), "allow": allowed(*OLD), "vouches": Vouches(SWARM), **changes}
    return node(key, **own)


def greeted(key: NodeKey, *others: NodeKey, **changes):
    """A node that these have greeted."""
    one = by_key(key, **changes)
    for other in others:
        one.receive(hello(other, endpoint=of_key(other.public)), other.public, 0.0)
    return one


def test_a_word_reaches_every_owner_once_and_whoever_accepts_it_learns_with_the_newcomer():
    wires = Invited(*OLD, LATE).open()
    wires.decide(LATE, allowed(*OLD, LATE), OF_LATE)
    assert not wires.vouched(THREE)  # nobody listens to the newcomer itself
    wires.decide(TWO, allowed(*OLD, LATE), OF_LATE)
    assert [wires.vouched(key) for key in (ONE, TWO, THREE, FOUR)] == [[OF_LATE], [], [OF_LATE], [OF_LATE]]
    for key in (ONE, THREE, FOUR):
        wires.decide(key, allowed(*OLD, LATE), OF_LATE)
    wires.offer()
    assert wires.sums() == [tuple(sorted(allowed(*OLD, LATE)))]
    assert not wires.ends(Failed)


def test_who_has_not_accepted_the_newcomer_and_the_newcomer_are_in_no_sum_together():
    wires = Invited(*OLD, LATE).open()
    wires.decide(LATE, allowed(*OLD, LATE), OF_LATE)
    for key in (TWO, ONE, FOUR):
        wires.decide(key, allowed(*OLD, LATE), OF_LATE)
    wires.offer().tick(30.0).tick(30.0)
    assert not wires.ends(Failed)
    assert wires.sums()
    assert all(not {THREE.public, LATE.public} <= {*group} for group in wires.sums())


def test_whoever_comes_later_is_told_of_all_words_once():
    one = greeted(ONE, vouches=Vouches(SWARM, (OF_LATE,)))
    there = hello(TWO, endpoint=of_key(TWO.public))
    told = [outbox(one.receive(there, TWO.public, 0.0), of_key(TWO.public)) for _ in range(2)]
    assert [[each for each in said if isinstance(each, Vouch)] for said in told] == [[OF_LATE], []]
    one.unreachable(of_key(TWO.public), "gone", 0.0)
    again = outbox(one.receive(there, TWO.public, 0.0), of_key(TWO.public))
    assert OF_LATE in again


def kept(one, message: Message, by: NodeKey = THREE) -> bool:
    """Whether a node keeps a word that another one brought."""
    return any(isinstance(each, Vouched) for each in one.receive(message, by.public, 0.0))


def test_a_word_that_is_kept_is_passed_on_to_all_but_who_brought_it():
    one = greeted(ONE, TWO, THREE, FOUR)
    actions = one.receive(OF_LATE, THREE.public, 0.0)
    assert only(actions, Vouched).vouch == OF_LATE
    assert [bool(outbox(actions, of_key(key.public))) for key in (TWO, THREE, FOUR)] == [True, False, True]


@pytest.mark.parametrize(
    ("vouch", "changes"),
    [
        (vouch_for(STRANGER, ROSTER, Member("late", LATE.public)), {}),
        (vouch_for(TWO, ROSTER, Member("again", THREE.public)), {}),
        (vouch_for(TWO, ROSTER, Member("me", ONE.public)), {}),
        (OF_LATE, {"vouches": Vouches(SWARM, (), allowed(LATE))}),
        (OF_LATE, {"vouches": Vouches(SWARM, (vouch_for(THREE, ROSTER, Member("it", LATE.public)),))}),
    ],
)
def test_a_word_by_a_stranger_for_a_member_or_for_one_who_was_removed_is_not_kept(vouch, changes):
    assert not kept(greeted(ONE, THREE, **changes), vouch)


def test_of_one_members_words_few_are_kept():
    one = greeted(ONE, THREE)
    newcomers = [NodeKey(bytes([100 + number]) * 32) for number in range(MOST_OF_ONE + 1)]
    words = [vouch_for(TWO, ROSTER, Member(f"n {n}", key.public)) for n, key in enumerate(newcomers)]
    assert [kept(one, word) for word in words] == [True] * MOST_OF_ONE + [False]
    assert kept(one, vouch_for(FOUR, ROSTER, Member("late", LATE.public)))


@pytest.mark.parametrize(
    ("vouch", "changes", "by"),
    [
        (replace(OF_LATE, name="other"), {}, THREE),
        (signing.sign(replace(OF_LATE, admission=bytes(64)), TWO), {}, THREE),
        (signing.sign(replace(OF_LATE, swarm=bytes(32)), TWO), {}, THREE),
        (OF_LATE, {}, FOUR),
        (OF_LATE, {"vouches": Vouches(b"")}, THREE),
    ],
)
def test_a_word_that_does_not_hold_or_comes_from_nobody_is_an_error(vouch, changes, by):
    with pytest.raises(RemoteProtocolError):
        kept(greeted(ONE, THREE, **changes), vouch, by)


def test_who_was_removed_is_no_longer_met_and_its_word_counts_no_more():
    wires = Invited(*OLD).open()
    of_three = vouch_for(THREE, ROSTER, Member("late", LATE.public))
    wires.hand(wires.where(ONE), of_three, wires.where(TWO))
    assert wires.vouched(ONE) == [of_three]
    wires.decide(ONE, allowed(ONE, TWO, FOUR), removed=allowed(THREE))
    assert not wires[ONE].is_member(THREE.public)
    assert of_key(THREE.public) not in [peer.endpoint for peer in wires[ONE].known_peers]
    wires.hand(wires.where(ONE), of_three, wires.where(TWO))
    assert wires.vouched(ONE) == [of_three]
    back = wires[ONE].receive(hello(THREE, endpoint=of_key(THREE.public)), THREE.public, wires.now)
    assert not outbox(back, of_key(THREE.public))


def test_who_was_removed_by_one_and_that_one_are_in_no_sum_together_and_none_fails():
    wires = Invited(*OLD).open()
    wires.decide(TWO, allowed(ONE, TWO, FOUR), removed=allowed(THREE))
    asked: list[Message] = []
    wires.dropped = lambda _from, _to, message: bool(asked.append(message))
    wires.offer().tick(30.0).tick(30.0)
    assert any(isinstance(each, LeftOut) and each.keys == (THREE.public,) for each in asked)
    assert not wires.ends(Failed)
    assert len(wires.sums()[0]) == 3
    assert not {TWO.public, THREE.public} <= {*wires.sums()[0]}


def test_who_is_taken_back_is_met_again():
    wires = Invited(*OLD).open()
    wires.decide(ONE, allowed(ONE, TWO, FOUR), removed=allowed(THREE))
    wires.decide(ONE, allowed(*OLD))
    assert wires[ONE].is_member(THREE.public)
    wires.offer()
    assert len(wires.sums()[0]) == 4


def test_a_sum_does_not_wait_for_who_is_removed_while_it_runs():
    wires = Invited(*OLD[:3]).open()
    own = wires.where(THREE)
    wires.dropped = lambda sender, _, message: sender == own and isinstance(message, Share | Sum)
    wires.offer()
    assert not wires.ends(Failed)
    wires.decide(ONE, allowed(ONE, TWO), removed=allowed(THREE))
    where, failed = wires.ends(Failed)[0]
    assert (where, failed.missing) == (wires.where(ONE), (THREE.public,))


def test_who_was_never_met_is_greeted_while_it_is_a_member():
    one = by_key(ONE, seeds=(of_key(THREE.public), of_key(FOUR.public)))
    one.open(0.0)
    one.change_members(allowed(ONE, TWO, FOUR, LATE), Vouches(SWARM, (OF_LATE,), allowed(THREE)), 0.0)
    greeted_again = {action.to for action in one.tick(10.0) if isinstance(action, Send)}
    assert greeted_again == {of_key(key.public) for key in (FOUR, LATE)}
    for _ in range(2):
        one.unreachable(of_key(LATE.public), "runs a newer version", 11.0)
    assert of_key(LATE.public) in one.other_versions
