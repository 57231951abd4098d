"""After the joins one member withholds a message from one other: the others hold nothing against that one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from protocol.actions import Completed, Due, Evidence, Failed
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.wire import signing
from protocol.wire.masked_messages import (
    Ack,
    Check,
    JoinCertificate,
    Joined,
    Lacking,
    Masked,
    Release,
    ResultCertificate,
    Total,
    ViewChange,
    ViewVote,
)
from protocol.wire.member_sets import members_in, set_of
from tests.parts import endpoint, members
from tests.wires import Wires

KEYS = members(4)
LIAR, VICTIM, ONE, OTHER = (endpoint(key) for key in KEYS)
NAMES = {key.public: endpoint(key) for key in KEYS}
MEMBERS = sorted(NAMES)
ALL_ADD, REDUCERS = 1 << 16, 0


class Withholding(Wires):
    """Four members without dropouts. What `lost` says of (from, to, message) is lost."""

    def __init__(self, layout: int, lost: Any) -> None:
        super().__init__(KEYS, masked=MaskedSettings(4.0, 0, layout))
        self.open()
        self.said: list[tuple[str, str, Lacking]] = []
        self.dropped = lambda here, to, message: self.note(here, to, message) or lost(here, to, message)

    def note(self, here: str, to: str, message: Any) -> None:
        if isinstance(message, Lacking):
            self.said.append((here, to, message))

    def to_the_end(self) -> Withholding:
        for _ in range(60):
            self.tick(0.5)
        return self

    def lacks(self, key: str) -> list[set[str]]:
        """Returns whose messages a member says that it lacks, each time that it tells ONE."""
        told = [said for here, to, said in self.said if here == key and to == ONE]
        return [{NAMES[each] for each in members_in(said.missing, tuple(MEMBERS))} for said in told]

    @property
    def sid(self) -> bytes:
        """The session's id."""
        machine = self[KEYS[0]]._machine
        assert machine is not None
        return machine.participant.sid

    def owed(self, key: str) -> tuple[Due, tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Returns what a member holds against whom when its session has failed."""
        (found,) = [end.withheld for where, end in self.ends(Failed) if where == key]
        pairs = tuple(tuple(NAMES[each] for each in pair) for pair in found.disputes)
        return found.due, tuple(NAMES[each] for each in found.keys), pairs


def from_liar_to_victim(kind: type) -> Any:
    return lambda here, to, message: isinstance(message, kind) and (here, to) == (LIAR, VICTIM)


@pytest.mark.parametrize(
    ("kind", "layout", "due"), [(Ack, ALL_ADD, Due.ANSWER), (Total, REDUCERS, Due.TOTAL)]
)
def test_the_victim_says_so_and_the_others_keep_the_two_apart(kind, layout, due):
    wires = Withholding(layout, from_liar_to_victim(kind)).offer().to_the_end()
    assert wires.lacks(VICTIM) == [{LIAR}]
    assert wires.owed(VICTIM) == (due, (LIAR,), ())
    assert wires.owed(ONE) == wires.owed(OTHER) == (Due.ANSWER, (), ((VICTIM, LIAR),))
    assert wires.owed(LIAR) == (Due.ANSWER, (VICTIM,), ()), "it knows what it has sent"


@pytest.mark.parametrize(("kind", "layout"), [(Masked, ALL_ADD), (Check, REDUCERS)])
def test_what_others_pass_on_in_another_view_costs_the_victim_nothing(kind, layout):
    wires = Withholding(layout, from_liar_to_victim(kind)).offer().to_the_end()
    assert not wires.ends(Failed)
    found = {where: end.withheld for where, end in wires.ends(Completed)}
    assert {where for where in found if found[where] and found[where].keys} <= {LIAR, VICTIM}


@pytest.mark.parametrize(("waited_s", "late"), [(1, {VICTIM}), (14, {LIAR, VICTIM})])
def test_who_is_left_alone_names_who_is_gone_and_whoever_was_late_for_a_view_that_is_over(waited_s, late):
    """Two vectors are missing. Before half of a view is over, the one that is here may still come."""
    silent = (LIAR, VICTIM)
    wires = Withholding(ALL_ADD, lambda here, _, message: isinstance(message, Masked) and here in silent)
    wires.offer()
    for _ in range(waited_s):
        wires.tick(1.0)
    for gone in (VICTIM, OTHER):
        wires.carry_out(ONE, wires[KEYS[2]].unreachable(gone, "refused", wires.now))
    due, keys, disputes = wires.owed(ONE)
    assert (due, set(keys), disputes) == (Due.VECTOR, late, ())


def test_an_acknowledgement_of_something_else_counts_as_none():
    def lost(here: str, to: str, message: Any) -> bool:
        if not isinstance(message, Ack) or (here, to) != (LIAR, VICTIM):
            return False
        wires.hand(to, another(message), here)
        return True

    wires = Withholding(ALL_ADD, lost)
    wires.offer().to_the_end()
    assert wires.lacks(VICTIM) == [{LIAR}]
    assert wires.owed(VICTIM) == (Due.ANSWER, (LIAR,), ())


def another(ack: Ack) -> Ack:
    """Returns the liar's valid acknowledgement of other totals."""
    digests = tuple(bytes(len(each)) for each in ack.digests)
    vote = replace(ack.vote, totals=totals_digest(ack.vote.sid, ack.vote.included, digests))
    return replace(ack, vote=signing.sign(vote, KEYS[0]), digests=digests)


def test_who_has_released_complains_of_nobody():
    """It has sent all that others need."""
    ends = (Release, ResultCertificate)
    wires = Withholding(ALL_ADD, lambda here, to, message: isinstance(message, ends) and here == LIAR)
    wires.offer().to_the_end()
    assert not wires.said
    assert wires.owed(ONE) == (Due.VOTE, (LIAR,), ())


@pytest.mark.parametrize("view", [1, 2])
def test_who_is_called_to_another_view_at_once_waits_for_its_end(view):
    """Else a liar could have the honest ones complain of each other; the last view has an end as well."""
    wires = Withholding(ALL_ADD, from_liar_to_victim(Ack))
    wires.offer()
    vote = signing.sign(ViewVote(wires.sid, KEYS[0].public, view, b"", ()), KEYS[0])
    wires.hand(VICTIM, ViewChange(vote, ()), LIAR)
    wires.quiet()
    assert not wires.said
    wires.to_the_end()
    assert wires.lacks(VICTIM) == [{LIAR}]
    assert wires.owed(ONE) == (Due.ANSWER, (), ((VICTIM, LIAR),))


def test_what_a_voter_says_waits_until_the_joins_are_certified():
    """It has voted, so that it has all joins: it lacks something that comes after them."""
    held: list[tuple[str, Any]] = []

    def lost(here: str, to: str, message: Any) -> bool:
        if to == ONE and isinstance(message, JoinCertificate):
            held.append((here, message))
            return True
        if to == ONE and isinstance(message, Joined) and here == OTHER:
            return True
        return (isinstance(message, Ack) and (here, to) == (VICTIM, ONE)) or isinstance(
            message, ResultCertificate
        )

    wires = Withholding(ALL_ADD, lost)
    wires.offer()
    missing = set_of((KEYS[0].public,), tuple(MEMBERS))
    wires.hand(ONE, signing.sign(Lacking(wires.sid, KEYS[1].public, missing), KEYS[1]), VICTIM)
    wires.hand(ONE, held[0][1], held[0][0])
    wires.to_the_end()
    assert wires.owed(ONE) == (Due.ANSWER, (), ((VICTIM, LIAR),))


def test_a_lacking_with_a_bad_signature_is_refused():
    wires = Withholding(ALL_ADD, from_liar_to_victim(Ack))
    wires.offer()
    wires.hand(ONE, Lacking(wires.sid, KEYS[1].public, set_of((KEYS[0].public,), tuple(MEMBERS))), VICTIM)
    assert [str(error) for error in wires.errors] == ["bad lacking signature in the name of 7422b988"]


# -- another release to one of them ------------------------------------------------------------------


def other(release: Release) -> Release:
    """Returns the liar's release of shares that were not dealt to it for that."""
    head = replace(release.head, included=release.head.included ^ 1)
    return replace(release, head=signing.sign(head, KEYS[0]))


def banning(wires: Wires) -> set[str]:
    return {where for where, _ in wires.ends(Evidence)}


def test_all_ban_who_sends_another_release_to_one_alone():
    def lost(here: str, to: str, message: Any) -> bool:
        is_other = isinstance(message, Release) and (here, to) == (LIAR, VICTIM)
        if is_other:
            wires.hand(to, other(message), here)
        return is_other

    wires = Withholding(ALL_ADD, lost)
    wires.offer()
    assert banning(wires) == {VICTIM, ONE, OTHER}
    assert not wires.errors


def test_a_release_that_comes_after_its_session_is_compared_with_the_one_of_the_session():
    releases: list[Release] = []
    wires = Withholding(
        ALL_ADD, lambda here, to, message: isinstance(message, Release) and releases.append(message)
    )
    wires.offer()
    assert len(wires.ends(Completed)) == 4
    (sent, *_) = (each for each in releases if each.head.sender == KEYS[0].public)
    wires.hand(ONE, sent, VICTIM)
    assert not banning(wires)
    wires.hand(ONE, other(sent), VICTIM)
    wires.quiet()
    assert banning(wires) == {VICTIM, ONE, OTHER}
