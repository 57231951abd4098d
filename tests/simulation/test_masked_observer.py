"""What an omniscient observer learns in masked sessions: hand-made transcripts with known results.

The results for five members are those of the protocol, Part II, K.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.wire.masked_messages import (
    Deal,
    Dealt,
    JoinHead,
    Masked,
    MaskedHead,
    Release,
    ReleaseHead,
    ResultCertificate,
)
from protocol.wire.messages import Key, Message
from tests.simulation.masked_observer import MaskedObserver, MaskedSession, session_of
from tests.simulation.observer import Basis

ALL, FIRST_FOUR, NOBODY = 0b11111, 0b01111, 0
LAST = 0b10000
SID, NEXT_SID = bytes([1] * 32), bytes([2] * 32)
KEYS: tuple[Key, ...] = tuple(bytes([10 * number] * 32) for number in range(1, 6))


def _x(member: int, training: int = 0) -> tuple[object, ...]:
    return "unit", member, training


def _offers(training: int = 0, members: int = 5) -> tuple[tuple[tuple[object, ...], ...], ...]:
    return tuple((_x(member, training),) for member in range(members))


def _sum(*members: int, training: int = 0) -> dict[tuple[object, ...], int]:
    return {_x(member, training): 1 for member in members}


COMPLETE = MaskedSession(SID, _offers(), sent=ALL, self_masks=ALL, mask_keys=NOBODY, included=ALL)
LATE = MaskedSession(SID, _offers(), sent=ALL, self_masks=FIRST_FOUR, mask_keys=LAST, included=FIRST_FOUR)


def _determined(*sessions: MaskedSession) -> list[dict[tuple[object, ...], int]]:
    return MaskedObserver(sessions).determined()


def _exposed(*sessions: MaskedSession) -> list[dict[tuple[object, ...], int]]:
    return MaskedObserver(sessions).exposed()


def test_the_observer_can_solve_equations():
    basis = Basis()
    a, b, c, mask = ("unit", "a"), ("unit", "b"), ("unit", "c"), ("mask", "m")
    basis.add({a: 1, mask: 1})
    basis.add({b: 1, mask: -1})
    assert basis.reduce({a: 1})
    assert not basis.reduce({a: 1, b: 1})
    basis.add({b: 1, c: 3})
    basis.add({c: 5})
    assert not basis.reduce({a: 1})


ONE_SUM = {
    "all included": (COMPLETE, _sum(0, 1, 2, 3, 4)),
    "one left out, whose vector comes late": (LATE, _sum(0, 1, 2, 3)),
    "two collude": (replace(COMPLETE, colluders=0b00011), _sum(2, 3, 4)),
    "all but one collude": (replace(COMPLETE, colluders=FIRST_FOUR), _sum(4)),
    "colluders take off the masks that they share": (
        replace(COMPLETE, sent=LAST, colluders=FIRST_FOUR),
        _sum(4),
    ),
    "several units in an offer": (
        replace(COMPLETE, offers=(*_offers()[:4], (_x(4, 0), _x(4, 1)))),
        {**_sum(0, 1, 2, 3, 4), _x(4, 1): 1},
    ),
}


@pytest.mark.parametrize(("session", "known"), ONE_SUM.values(), ids=ONE_SUM)
def test_one_sum_alone_is_determined(session, known):
    assert _determined(session) == [known]


def test_nothing_is_determined_while_a_mask_is_left():
    assert _determined(replace(COMPLETE, self_masks=NOBODY, included=NOBODY)) == []
    assert _determined(replace(COMPLETE, sent=LAST, colluders=0b00111)) == []


def test_only_what_is_meant_is_not_exposed():
    assert _exposed(COMPLETE) == _exposed(LATE) == _exposed(replace(COMPLETE, colluders=0b00011)) == []
    observer = MaskedObserver([LATE])
    assert [observer.knows(LATE, members) for members in (FIRST_FOUR, LAST, ALL)] == [True, False, False]
    assert _exposed(replace(LATE, included=ALL)) == [_sum(0, 1, 2, 3)], "as if two sets had ended"


def test_an_offer_that_is_made_again_exposes_who_left():
    """Both sums are meant to be known, each in its session: the rule that offers are fresh prevents this."""
    again = replace(LATE, sid=NEXT_SID)
    assert MaskedObserver([COMPLETE, again]).knows(COMPLETE, LAST)
    assert len(_determined(COMPLETE, again)) == 2
    assert _exposed(COMPLETE, again) == []
    assert _exposed(COMPLETE, replace(again, included=NOBODY)) != []


def test_fresh_offers_under_fresh_masks_in_the_next_session_expose_nobody():
    fresh = replace(LATE, sid=NEXT_SID, offers=_offers(training=1))
    observer = MaskedObserver([COMPLETE, fresh])
    assert observer.exposed() == []
    assert not observer.knows(COMPLETE, LAST)
    assert not observer.knows(fresh, LAST)
    second = replace(COMPLETE, sid=NEXT_SID, offers=_offers(training=1))
    assert len(_determined(COMPLETE, second)) == 2
    assert len(_determined(COMPLETE, replace(second, sid=SID))) > 2, "masks that are used again"


# -- from transcripts, made by hand; five members, one dropout: four shares open a secret ------------------


def _masked(member: int, sid: bytes = SID) -> Masked:
    return Masked(MaskedHead(sid, KEYS[member], 0, bytes(32)), bytes(8))


def _release(member: int, included: int, sid: bytes = SID) -> Release:
    head = ReleaseHead(sid, KEYS[member], included, bytes(32), bytes(32), bytes(32))
    return Release(head, (bytes(32),) * 5)


def _facts(messages: list[Message], *colluders: int) -> MaskedSession:
    return session_of(messages, SID, KEYS, _offers(), 1, frozenset(KEYS[member] for member in colluders))


EVERY_VECTOR: list[Message] = [_masked(member) for member in range(5)]


def _releases(*sets: int) -> list[Message]:
    """Makes the releases of members 0, 1, ... for these sets."""
    return [_release(member, included) for member, included in enumerate(sets)]


FACTS = {
    "a whole session": (EVERY_VECTOR + _releases(*[ALL] * 5), COMPLETE),
    "one left out": (EVERY_VECTOR + _releases(*[FIRST_FOUR] * 4), LATE),
    "a vector that was never sent": (
        EVERY_VECTOR[:4] + _releases(*[FIRST_FOUR] * 4),
        replace(LATE, sent=FIRST_FOUR),
    ),
    "a share too few, and one twice": (
        [*EVERY_VECTOR, *_releases(ALL, ALL, ALL), _release(2, ALL)],
        replace(COMPLETE, self_masks=NOBODY, included=NOBODY),
    ),
    "no set has four releases, but enough of them contain the same three members": (
        EVERY_VECTOR + _releases(ALL, ALL, FIRST_FOUR, FIRST_FOUR),
        replace(COMPLETE, self_masks=FIRST_FOUR, included=NOBODY),
    ),
    "another session's": (
        [_masked(4, NEXT_SID), _release(4, ALL, NEXT_SID)],
        MaskedSession(SID, _offers(), 0, 0, 0, 0),
    ),
}


@pytest.mark.parametrize(("messages", "facts"), FACTS.values(), ids=FACTS)
def test_what_messages_show(messages, facts):
    assert _facts(messages) == facts


def test_a_certificate_opens_what_it_holds():
    head, deal = JoinHead(SID, KEYS[0], bytes(32), 1), Deal(bytes(32), bytes(32), bytes(32))
    certificate = ResultCertificate(
        SID, FIRST_FOUR, (bytes(32),), (Dealt(head, deal, ()),) * 5, (bytes(32),) * 5, ()
    )
    assert _facts([*EVERY_VECTOR, certificate]) == LATE
