"""How long a node waits for its electors, and what it does then."""

from math import inf

import pytest

from protocol.quorum.electorate import of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import PATIENT_ROUNDS, PATIENT_S, TRUSTING_ROUNDS, Patience
from tests.parts import ANY_THREE, NOW, announce, base, endpoint, members, settings, state

KEYS = members(5)
STRONG = base(2, anchor=2)
WEAK = base(3, anchor=2)
NAMES = of_names(endpoint(key) for key in KEYS[:4])


def name(place: int) -> bytes:
    return endpoint(KEYS[place]).encode()


def patience(held=STRONG, heard: int = 0, **changes) -> Patience:
    """Makes the patience of member one on this base, which has heard these others."""
    where = state(2, held, gone=changes.pop("gone", frozenset()))
    known = Members(where)
    for key in KEYS[1 : 1 + heard]:
        known.learn(announce(key), NOW, live=True)
    return Patience(settings(KEYS[0], **changes), where, known)


def failing(found: Patience, rounds: int, every_s: float) -> float:
    """Lets this many rounds fail; returns the time of the last one."""
    for number in range(rounds):
        found.failed(NOW + number * every_s)
    return NOW + (rounds - 1) * every_s


# -- weak groups ---------------------------------------------------------------------------------------


def test_on_a_strong_base_it_waits_for_some_rounds_and_some_time():
    found = patience()
    assert not found.is_willing(NOW)
    last = failing(found, PATIENT_ROUNDS - 1, PATIENT_S)
    assert not found.is_willing(last + PATIENT_S)
    found.failed(last + 1)

    assert found.is_willing(last + 1)


def test_short_rounds_do_not_shorten_the_time():
    found = patience()
    failing(found, PATIENT_ROUNDS + 3, 0.1)

    assert not found.is_willing(NOW + PATIENT_S - 0.1)
    assert found.is_willing(NOW + PATIENT_S)


@pytest.mark.parametrize("wait_each_s", [0.0, inf])
def test_on_a_weak_base_it_is_willing_at_once(wait_each_s):
    assert patience(WEAK, wait_each_s=wait_each_s).is_willing(NOW)


def test_who_waits_for_ever_waits_for_a_quorum():
    found = patience(wait_each_s=inf)
    last = failing(found, PATIENT_ROUNDS, PATIENT_S)
    assert not found.is_willing(last + PATIENT_S)


@pytest.mark.parametrize("held", [STRONG, WEAK])
def test_whose_owner_forbids_weak_groups_is_never_willing(held):
    found = patience(held, weak=False)
    failing(found, 2 * PATIENT_ROUNDS, PATIENT_S)

    assert not found.is_willing(NOW + 100 * PATIENT_S)


def test_a_base_ends_the_waiting():
    found = patience()
    last = failing(found, PATIENT_ROUNDS, PATIENT_S)
    found.adopted(was_anchored=True, now=last)

    assert (found.failed_rounds, found.is_trusting, found.is_willing(last + PATIENT_S)) == (0, False, False)
    found.failed(last + PATIENT_S)
    assert not found.is_willing(last + 3 * PATIENT_S)


def test_after_two_failed_rounds_it_trusts_one_member():
    found = patience()
    for _ in range(TRUSTING_ROUNDS):
        assert not found.is_trusting
        found.failed(NOW)

    assert found.is_trusting


# -- who is gone for good ------------------------------------------------------------------------------


def test_nobody_is_gone_but_whom_the_owner_named():
    assert patience(electorate=NAMES).gone(NOW) == ()
    named = patience(electorate=NAMES, gone=frozenset((name(3), name(1))))

    assert named.gone(NOW + 10**9) == tuple(sorted((name(1), name(3))))


def test_after_the_amnesty_the_electors_that_are_silent_are_gone():
    """The node itself and the peers that it hears are present."""
    found = patience(heard=1, electorate=NAMES, amnesty_s=3600.0, gone=frozenset((b"elsewhere:1",)))
    assert found.gone(NOW) == found.gone(NOW + 3599.9) == (b"elsewhere:1",)

    assert found.gone(NOW + 3600) == tuple(sorted((b"elsewhere:1", name(2), name(3))))


def test_a_member_that_can_not_be_reached_is_silent():
    found = patience(heard=3, electorate=NAMES, amnesty_s=0.0)
    assert found.gone(NOW) == ()
    found._members.suspect(KEYS[2].public)

    assert found.gone(NOW) == (name(2),)


def test_a_strong_base_begins_the_amnesty_anew_and_a_weak_one_does_not():
    found = patience(WEAK, electorate=NAMES, amnesty_s=100.0)
    found.gone(NOW)
    found.adopted(was_anchored=False, now=NOW + 90)
    assert found.gone(NOW + 100)
    found.adopted(was_anchored=True, now=NOW + 100)

    assert found.gone(NOW + 199) == ()
    assert found.gone(NOW + 200)


def test_of_a_later_anchor_the_electors_are_keys():
    found = patience(heard=1, electorate=NAMES, amnesty_s=0.0)
    found._state.line = Line(2, of_keys(key.public for key in KEYS[:3]))

    assert found.gone(NOW) == (KEYS[2].public,)


@pytest.mark.parametrize("electorate", [None, ANY_THREE])
def test_where_nobody_is_named_nobody_is_missed(electorate):
    assert patience(electorate=electorate, amnesty_s=0.0).gone(NOW) == ()
