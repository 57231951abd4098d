"""A vote is bound from before the first byte of a release until it can no longer count."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.actions import OpenVote, Unbind, Vote
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.quorum.electorate import of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState
from protocol.swarm.votes.voting import Voting
from protocol.wire import signing
from protocol.wire.ids import RESIGNED
from protocol.wire.messages import Base, Group
from tests.lines import session_of
from tests.parts import COUNTER, NOW, announce, base, endpoint, members, patience, settings, state

KEYS = members(6)
ONE, TWO, THREE, FOUR, FIVE, SIX = KEYS
NAMES = of_names(endpoint(key) for key in KEYS[:5])
MASKED = MaskedSettings(4.0, None)
ON = base(2, 3, anchor=2)
LINE = Line(2, NAMES)


class Voter:
    """Member one, bound in a masked session of these: of five, four must release."""

    def __init__(
        self, keys=KEYS[:5], where: NodeState | None = None, bound: bool = True, **changes: Any
    ) -> None:
        self.settings = settings(ONE, **{"masked": MASKED, "electorate": NAMES, **changes})
        self.state = where or state(4, ON, line=LINE)
        self.known = Members(self.state)
        self.patience = patience(self.settings, self.state, self.known)
        self.voting = Voting(self.settings, self.state, self.known, self.patience)
        self.group: Group = session_of(keys, ON, electors=NAMES.digest, round=4)
        self.sid = signing.session_id(self.group)
        if bound:
            self.voting.cast(OpenVote(self.sid, 2, self.group))

    def hears(self, key, counter: int = COUNTER + 1, **changes: Any) -> list:
        """Returns what follows from this member's message: it is in the session unless it says otherwise."""
        said = announce(key, **{"base": ON, "round": 4, "counter": counter, **changes})
        self.known.learn(said, NOW, live=True)
        return self.voting.look(NOW)


def left(**changes: Any) -> dict[str, Any]:
    """A member that ended the session's round, and shows nothing of it."""
    return {"round": 5, **changes}


# -- bound ---------------------------------------------------------------------------------------------


def test_all_that_is_open_is_said_in_order():
    voter = Voter(bound=False)
    for mark in (b"b", b"a"):
        voter.voting.cast(OpenVote(mark * 32, 2))

    assert voter.state.announce(voter.settings).open == (b"a" * 32, b"b" * 32)


# -- free by a higher anchor ---------------------------------------------------------------------------


@pytest.mark.parametrize(("held", "is_free"), [(base(3, anchor=2), False), (base(3, anchor=3), True)])
def test_a_base_of_a_higher_anchor_frees_it_and_a_weak_one_does_not(held: Base, is_free: bool):
    voter = Voter()
    voter.state.base = held
    voter.voting.adopted()

    assert (voter.state.votes == {}) is is_free


# -- free by a result that is none ---------------------------------------------------------------------


def test_a_session_without_a_result_for_anybody_frees_it_once():
    voter = Voter()

    assert voter.voting.refused(b"x" * 32) == []
    assert voter.voting.refused(voter.sid) == [Unbind(voter.sid)]
    assert voter.voting.refused(voter.sid) == []
    assert voter.state.votes == {}


# -- free by death -------------------------------------------------------------------------------------


def one_may_lie(keys=KEYS[:5], **changes: Any) -> Voter:
    """A voter among these electors, of whom one may lie."""
    names = of_names((endpoint(key) for key in KEYS[:5]), 1)
    voter = Voter(keys, bound=False, where=state(4, ON, line=Line(2, names)), liars=1, **changes)
    voter.group = session_of(keys, ON, electors=names.digest, round=4)
    voter.sid = signing.session_id(voter.group)
    voter.voting.cast(OpenVote(voter.sid, 2, voter.group))
    return voter


@pytest.mark.parametrize(
    ("make", "before", "last"),
    [
        pytest.param(Voter, [TWO], THREE, id="four of five are as many as it takes"),
        pytest.param(lambda: Voter(KEYS[:3], masked=None), [], TWO, id="shares are summed"),
        pytest.param(one_may_lie, [TWO, THREE], FOUR, id="of two that say so one may have released"),
        pytest.param(lambda: one_may_lie((*KEYS[:4], SIX)), [TWO, SIX], THREE, id="a newcomer may lie"),
    ],
)
def test_a_session_is_dead_when_too_few_can_still_release(make, before, last):
    voter = make()
    assert [voter.hears(key, **left()) for key in before] == [[]] * len(before)

    assert voter.hears(last, **left()) == [Unbind(voter.sid)]
    assert voter.state.votes == {}


def test_a_session_is_dead_when_no_quorum_can_still_release():
    """Four of six are enough to open it. Two electors are left, half, but without the first one."""
    names = of_names(endpoint(key) for key in (TWO, THREE, FIVE, SIX))
    voter = Voter(KEYS[:6], masked=MaskedSettings(4.0, 2), where=state(4, ON, line=Line(2, names)))
    voter.group = session_of(KEYS[:6], ON, electors=names.digest, round=4)
    voter.sid = signing.session_id(voter.group)
    voter.state.votes.clear()
    voter.voting.cast(OpenVote(voter.sid, 2, voter.group))
    first = next(key for key in KEYS if endpoint(key).encode() == names.members[0])
    other = next(key for key in (SIX, FIVE) if key != first)
    assert voter.hears(other, **left()) == []

    assert voter.hears(first, **left()) == [Unbind(voter.sid)]


OUT = left()
NOT_OUT = {
    "it was not heard since": {"counter": COUNTER},
    "what it said before": {**OUT, "counter": COUNTER - 1},
    "it holds a base of a higher anchor": {**OUT, "base": base(3, anchor=3)},
    "it is still in the round": {"round": 4},
    "its vote is open, too": "sid",
}


@pytest.mark.parametrize("why", NOT_OUT)
def test_who_may_still_release_or_have_the_result_is_not_out(why):
    voter = Voter(KEYS[:3], masked=None)
    changes = NOT_OUT[why]
    said = {**OUT, "open": (voter.sid,)} if isinstance(changes, str) else changes

    assert voter.hears(TWO, **said) == []
    assert voter.hears(TWO, **{**OUT, "counter": COUNTER + 2}) == [Unbind(voter.sid)]


@pytest.mark.parametrize(
    "why",
    [
        {"round": 5},
        {"round": 9},
        {"round": 4, "instance": b"2" * 16},
        {"round": 5, "open": (b"x" * 32,)},
        {"round": 5, "base": base(3, 4, anchor=2)},
        {"round": 5, "leaving": True},
        {"round": 4, "instance": b"2" * 16, "epoch": 2, "counter": 0},
    ],
    ids=["ended it", "later", "started anew", "other vote", "weak base", "left for good", "another start"],
)
def test_who_ended_the_round_or_started_anew_without_that_vote_is_out(why):
    voter = Voter(KEYS[:3], masked=None)

    assert voter.hears(TWO, **why) == [Unbind(voter.sid)]


def test_a_node_itself_is_never_out():
    voter = Voter(KEYS[:3], masked=None)

    assert voter.known.get(ONE.public) is None
    assert voter.voting.look(NOW) == []


def test_who_is_gone_for_good_releases_nothing_more():
    voter = Voter(KEYS[:3], masked=None, amnesty_s=60.0)
    voter.known.learn(announce(TWO, base=ON), NOW, live=True)
    assert voter.voting.look(NOW) == voter.voting.look(NOW + 59) == []

    assert voter.voting.look(NOW + 60) == [Unbind(voter.sid)], "three is silent"


def test_one_that_is_no_elector_is_not_gone_because_others_are():
    voter = Voter((*KEYS[:4], SIX), where=state(4, ON, line=LINE, gone=frozenset((b"elsewhere:1",))))

    assert voter.voting.look(NOW) == []


def test_of_a_session_without_a_ballot_nothing_is_said():
    """It was cast on another anchor, with other electors."""
    voter = Voter(where=state(4, ON, line=Line(2, of_keys([SIX.public]))))
    for key in KEYS[1:5]:
        assert voter.hears(key, **left()) == []


# -- resigned ------------------------------------------------------------------------------------------


def test_an_elector_that_follows_resigns_once():
    voter = Voter(bound=False, where=state(4, ON, line=LINE, following=True))
    vote = OpenVote(RESIGNED, 2)

    assert voter.voting.look(NOW) == [Vote(vote)]
    assert voter.voting.look(NOW) == []
    assert voter.state.announce(voter.settings).open == (RESIGNED,)


def test_who_is_in_doubt_does_not_resign_before_it_is_free():
    voter = Voter(KEYS[:3], masked=None)
    voter.state.following = True
    assert voter.voting.look(NOW) == []

    assert voter.hears(TWO, **left()) == [Unbind(voter.sid), Vote(OpenVote(RESIGNED, 2))]


def test_who_offers_or_is_no_elector_or_knows_none_does_not_resign():
    other = Line(2, of_keys([SIX.public]))

    assert Voter(bound=False).voting.look(NOW) == []
    for where in (state(4, ON, line=other, following=True), state(0, base(), following=True)):
        assert Voter(bound=False, where=where, electorate=None).voting.look(NOW) == []


def test_a_resignation_ends_with_its_anchor_and_is_said_anew_on_the_next():
    voter = Voter(bound=False, where=state(4, ON, line=LINE, following=True))
    voter.voting.look(NOW)
    voter.state.base = base(3, anchor=3)
    voter.voting.adopted()

    assert voter.voting.look(NOW) == [Vote(OpenVote(RESIGNED, 3))]
