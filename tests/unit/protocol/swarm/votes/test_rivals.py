"""Who may join a group asks the electors outside of it first whether they are in a rival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from protocol.actions import OpenVote, Send
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.membership import Members
from protocol.swarm.votes.rivals import APART_S, ASKED_S, Rivals, in_both
from protocol.swarm.votes.voting import Voting
from protocol.wire import codec, signing
from protocol.wire.ids import RESIGNED
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Base, Group, Head, Heard, Link
from tests.parts import (
    COUNTER,
    NOW,
    announce,
    base,
    group_of,
    members,
    patience,
    ready,
    resigned,
    settings,
    state,
)

KEYS = members(6)
ONE, TWO, THREE, FOUR, FIVE, SIX = KEYS
ELECTORS = of_keys((key.public for key in KEYS[:5]), 0)
ON = base(2, 3, anchor=2)
LINE = Line(2, ELECTORS)


def group(
    keys: Sequence[NodeKey], coordinator: NodeKey = ONE, on: Base = ON, electors=ELECTORS, **changes: Any
) -> Group:
    """A group of these members, whose READYs are as old as `counter` says."""
    asked = {"electors": electors.digest, "base": on, **changes}
    return group_of((ready(key, coordinator.public, **asked) for key in keys), coordinator)


OWN = group((ONE, TWO, THREE), counter=COUNTER + 5)
"""The group that member two may join: three of five electors."""
OTHER = group((ONE, FOUR, FIVE))
"""Its rival: member one is in both."""


class Asker:
    """Member two, who knows these as live."""

    def __init__(self, live: Sequence[NodeKey] = KEYS[:5], line: Line = LINE, me: NodeKey = TWO) -> None:
        self.settings = settings(me, electorate=of_names(()), liars=0)
        self.state = state(4, ON, line=line)
        self.known = Members(self.state)
        for key in live:
            if key is not me:
                self.known.learn(announce(key, base=ON), NOW, live=True)
        waits = patience(self.settings, self.state, self.known)
        self.voting = Voting(self.settings, self.state, self.known, waits)
        self.rivals = Rivals(self.settings, self.state, self.known, self.voting)

    def ask(self, about: Group = OWN, now: float = NOW) -> list[str]:
        """Returns the keys that are asked."""
        ballot = self.voting.ballot(about)
        assert ballot is not None
        sends = self.rivals.ask(about, ballot, now)
        head = Head(signing.session_id(about), ON.anchor)
        assert sends == [Send(send.to, (head,)) for send in sends if isinstance(send, Send)]
        return [send.to for send in sends if isinstance(send, Send)]

    def hears(self, by: NodeKey, *groups: Group, about: Group = OWN, now: float = NOW) -> None:
        self.rivals.heard(Heard(signing.session_id(about), groups), by.public, now)

    def settles(self, now: float = NOW) -> tuple[Group, tuple[Group, ...]] | None:
        self.rivals.tick(now)
        return self.rivals.settled(now)


# -- who is asked --------------------------------------------------------------------------------------


def test_the_group_itself_is_no_rival_though_a_member_without_a_free_vote_names_it():
    """It is bound elsewhere, so it is no voter here: it is asked, and has joined meanwhile."""
    bound = ready(FOUR, ONE.public, electors=ELECTORS.digest, base=ON, open=(bytes(32),), counter=COUNTER + 5)
    free = (
        ready(key, ONE.public, electors=ELECTORS.digest, base=ON, counter=COUNTER + 5) for key in KEYS[:3]
    )
    own = group_of((*free, bound), ONE)
    asker = Asker(KEYS[:5])
    assert FOUR.public in asker.ask(own)
    asker.hears(FOUR, own, about=own)
    asker.hears(FIVE, about=own)

    assert asker.settles() == (own, ())


def test_the_live_electors_outside_are_asked_and_nobody_else():
    assert Asker(KEYS).ask() == sorted((FOUR.public, FIVE.public))
    assert Asker(KEYS[:4]).ask() == [FOUR.public]


@pytest.mark.parametrize("keys", [KEYS[:4], KEYS[:5]])
def test_where_no_rival_can_have_a_quorum_nobody_is_asked(keys):
    """Of five, one outside and one liar are two."""
    assert Asker().ask(group(keys)) == []


def test_where_f_may_lie_a_rival_takes_one_liar_more():
    """Of six with f = 1 four are a quorum: two outside and two liars could be a rival, if f + 1 lie."""
    electors = of_keys((key.public for key in KEYS), 1)
    own = group(KEYS[:4], electors=electors)
    assert Asker(KEYS, Line(2, electors)).ask(own) == sorted((FIVE.public, SIX.public))

    larger = of_keys((key.public for key in KEYS), 2)
    assert Asker(KEYS, Line(2, larger)).ask(group(KEYS[:5], electors=larger)) == []


def test_where_any_few_are_a_quorum_all_who_are_here_are_asked():
    few = replace(ELECTORS, members=(), least=3)
    own = group((ONE, TWO, THREE), electors=few)
    assert Asker(KEYS, Line(2, few)).ask(own) == sorted((FOUR.public, FIVE.public, SIX.public))
    assert Asker(KEYS[:4], Line(2, few)).ask(own) == []


def test_nobody_is_asked_about_a_second_group_with_the_same_ready():
    asker = Asker()
    assert asker.ask()
    with pytest.raises(RemoteProtocolError, match="a second GROUP with one READY"):
        asker.ask(OWN)
    assert asker.ask(group((ONE, TWO, THREE), counter=COUNTER + 6)), "the READY before is void"


# -- how long ------------------------------------------------------------------------------------------


def test_it_joins_once_all_have_answered():
    asker = Asker()
    assert asker.settles() is None, "nothing was asked"
    asker.ask()
    asker.hears(FOUR)
    assert asker.settles() is None
    asker.hears(FIVE)

    assert asker.settles() == (OWN, ())
    assert asker.settles() is None, "once"
    assert asker.rivals.deadline is None


def test_who_does_not_answer_is_waited_for_once_until_it_does():
    asker = Asker()
    asker.ask()
    asker.hears(FIVE)
    assert asker.rivals.deadline == NOW + ASKED_S
    assert asker.settles(NOW + ASKED_S - 0.1) is None
    assert asker.settles(NOW + ASKED_S) == (OWN, ())

    later = group((ONE, TWO, THREE), counter=COUNTER + 6)
    assert FOUR.public in asker.ask(later)
    assert asker.settles() is None, "five is waited for"
    asker.hears(FIVE, about=later)
    assert asker.settles() == (later, ()), "four is not"

    asker.hears(FOUR, about=later)  # late
    last = group((ONE, TWO, THREE), counter=COUNTER + 7)
    asker.ask(last)
    asker.hears(FIVE, about=last)
    assert asker.settles() is None, "four is here again"


def test_the_wait_follows_earlier_answers():
    asker = Asker()
    for number in range(3):
        own = group((ONE, TWO, THREE), counter=COUNTER + 6 + number)
        asker.ask(own)
        for key in (FOUR, FIVE):
            asker.hears(key, about=own, now=NOW + 0.3)
        assert asker.settles() == (own, ())
    asker.ask()

    assert asker.rivals.deadline == NOW + 0.6


def test_an_answer_that_nobody_asked_for_says_nothing():
    asker = Asker()
    asker.hears(FOUR, OTHER)
    asker.ask()
    asker.hears(THREE, OTHER)
    asker.hears(FOUR, OTHER, about=OTHER)
    asker.hears(FOUR)
    asker.hears(FIVE)

    assert asker.settles() == (OWN, ())


# -- what a rival is -----------------------------------------------------------------------------------


def found(
    asker: Asker, *groups: Group, by: NodeKey = FOUR, also: Sequence[Group] = (), now: float = NOW
) -> Any:
    """The rivals, if `by` names these groups and the other elector outside `also`."""
    other = FIVE if by is FOUR else FOUR
    asker.ask(now=now)
    asker.hears(by, *groups, now=now)
    asker.hears(other, *also, now=now)
    settled = asker.settles(now)
    assert settled is not None
    return settled[1]


def test_a_group_of_another_member_outside_is_a_rival_and_one_keeps_apart_for_a_moment():
    asker = Asker()

    assert found(asker, OTHER, also=(OTHER,)) == (OTHER, OTHER)
    assert asker.rivals.keeps_apart
    assert asker.rivals.deadline == NOW + APART_S
    asker.rivals.tick(NOW + APART_S)
    assert not asker.rivals.keeps_apart
    assert asker.rivals.deadline is None


def test_another_base_ends_all_of_it():
    asker = Asker()
    found(asker, OTHER)
    asker.rivals.adopted()
    assert not asker.rivals.keeps_apart
    asker.ask()
    asker.rivals.adopted()
    assert asker.settles(NOW + 9) is None


@pytest.mark.parametrize(
    "named",
    [
        group((FOUR, FIVE, SIX), FOUR),
        group((ONE, FOUR, FIVE), on=base(1, 1, anchor=1)),
        group((ONE, FOUR, FIVE), electors=of_keys([ONE.public])),
    ],
    ids=["no quorum", "on an anchor before", "other electors"],
)
def test_a_group_that_can_make_no_base_beside_is_none(named):
    assert found(Asker(), named) == ()


def test_a_quorum_that_shows_a_later_base_is_one_though_the_groups_between_are_lost():
    later = base(3, 9, anchor=3)
    assert found(Asker(), group((ONE, FOUR, FIVE), on=later)) != ()
    assert found(Asker(), group((FOUR, FIVE, SIX), FOUR, on=later)) == ()


def test_one_word_that_it_left_is_doubted_while_another_is_in_it_but_not_for_ever():
    """Member one says by its READY that it left. If that is a lie, it may have voted there."""
    asker = Asker()
    assert found(asker, OTHER, also=(OTHER,)) == (OTHER, OTHER)
    longest = asker.voting.longest_s
    assert found(asker, OTHER, also=(OTHER,), now=NOW + longest - 1) == (OTHER, OTHER)
    assert found(asker, OTHER, also=(OTHER,), now=NOW + longest) == ()


@pytest.mark.parametrize("out", ["its answer", "its announcement"])
def test_two_words_are_enough(out):
    asker = Asker()
    if out == "its answer":
        assert found(asker, OTHER) == ()
    else:
        asker.known.learn(announce(FIVE, base=ON, round=5, counter=COUNTER + 1), NOW, live=True)
        asker.ask()
        asker.hears(FOUR, OTHER)
        assert asker.settles(NOW + ASKED_S) == (OWN, ())


def test_an_older_ready_and_one_that_shows_the_vote_are_no_such_words():
    before = group((ONE, TWO, THREE), counter=COUNTER - 1)
    asker = Asker()
    asker.ask(before)
    asker.hears(FOUR, OTHER, about=before)
    asker.hears(FIVE, about=before)
    assert asker.settles() == (before, (OTHER,))


def test_a_node_does_not_doubt_its_own_word():
    """Member two was in a group with four and five, and left it."""
    before = group((TWO, FOUR, FIVE), FOUR)
    assert found(Asker(), before, also=(before,)) == ()
    assert found(Asker(me=THREE), before, also=(before,)) == (before, before)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (resigned(OTHER, TWO), "bad group signature"),
        (replace(OTHER, readys=()), "a rival without members"),
        (group((ONE, FOUR, FIVE), task="another"), "a rival of another swarm"),
        (group_of(OTHER.readys[:2], ONE), "a GROUP of 2"),
    ],
)
def test_a_group_that_no_coordinator_signed_is_refused(named, why):
    asker = Asker()
    asker.ask()
    with pytest.raises(RemoteProtocolError, match=why):
        asker.hears(FOUR, named)


def test_but_one_that_has_voted_there_and_was_freed_knows_that_its_vote_is_out():
    before = group((TWO, FOUR, FIVE), FOUR)
    asker = Asker()
    asker.voting.cast(OpenVote(signing.session_id(before), 2, before))
    asker.voting.refused(signing.session_id(before))
    assert found(asker, before, also=(before,)) == (before, before)
    asker.state.base = base(3, 8, anchor=3)
    asker.voting.adopted()
    asker.state.base = ON
    assert found(asker, before, also=(before,)) == (), "on another anchor it forgets that"


# -- answering -----------------------------------------------------------------------------------------


def answers(asker: Asker, anchor: int = 2, running: Group | None = None) -> list[Group]:
    answer = asker.rivals.answer(Head(b"h" * 32, anchor), running)
    assert answer.sid == b"h" * 32
    return list(answer.groups)


def test_it_names_the_groups_that_it_asks_about_is_in_and_has_voted_in_each_once():
    asker = Asker()
    assert answers(asker) == []
    asker.ask()
    assert answers(asker) == [OWN]
    assert answers(asker, running=OTHER) == [OTHER, OWN]
    for mark in range(2):
        vote = OpenVote(bytes([mark]) * 32, 2, OTHER)
        asker.state.votes[vote.sid] = vote
    assert answers(asker) == [OWN, OTHER]
    assert answers(asker, anchor=3) == []


def test_of_a_run_it_names_the_first_step():
    assert answers(Asker(), running=OTHER.later(base(3, 8, anchor=3))) == [OTHER]


def test_it_names_the_group_that_led_on_from_an_anchor_that_the_other_is_still_on():
    made = [group((ONE, FOUR, FIVE), on=base(number, number, anchor=number)) for number in range(4)]
    asker = Asker(line=Line(4, ELECTORS, tuple(Link(each, (), ()) for each in made)))

    assert answers(asker, anchor=2) == [made[2]]
    assert answers(asker, anchor=4) == []


def test_it_names_no_more_groups_than_one_frame_holds():
    many = members(MAX_MEMBERS)
    long = ".".join(["a" * 60] * 4) + ":9001"
    said = {"electors": ELECTORS.digest, "base": ON, "endpoint": long}
    gone = tuple(key.public for key in many[:8])
    readys = [ready(key, ONE.public, gone=gone, **said) for key in many]
    excused = tuple(announce(key, base=ON, endpoint=long, open=(RESIGNED,)) for key in many)
    large = [group_of(readys, ONE, attempt, excused=excused) for attempt in range(3)]
    assert all(codec.fits(each) for each in large)
    asker = Asker()
    for mark, each in enumerate((*large, OTHER)):
        asker.state.votes[bytes([mark]) * 32] = OpenVote(bytes([mark]) * 32, 2, each)

    answer = asker.rivals.answer(Head(b"h" * 32, 2), None)
    assert list(answer.groups) == [*large[:2], OTHER], "what is small enough comes after all"
    assert codec.decode(codec.encode(answer).join()) == answer


# -- who is to blame -----------------------------------------------------------------------------------


def test_the_coordinator_of_both_is_to_blame_or_whoever_is_in_both():
    assert in_both(OWN, [OTHER]) == {ONE.public}
    assert in_both(OWN, [group((TWO, THREE, FOUR), TWO)]) == {TWO.public, THREE.public}
    assert in_both(OWN, []) == frozenset()


def test_a_tracker_is_not_to_blame():
    own, other = (group(keys, SIX) for keys in ((ONE, TWO, THREE), (ONE, FOUR, FIVE)))
    assert in_both(own, [other]) == {ONE.public}
