"""What an omniscient observer learns in masked sessions: hand-made transcripts with known results.

The results for five members are those of the protocol, Part II, K.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

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
from protocol.wire.messages import Key, Message, Sum
from scenarios.simulator.network import Network
from scenarios.simulator.plans import Plan
from tests.simulation.masked_observer import MaskedObserver, MaskedSession, session_of, sessions_of

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


def test_all_included_only_the_sum_of_all_is_determined():
    assert _determined(COMPLETE) == [_sum(0, 1, 2, 3, 4)]
    assert _exposed(COMPLETE) == []


def test_one_left_out_whose_vector_comes_late_only_the_sum_of_the_four():
    assert _determined(LATE) == [_sum(0, 1, 2, 3)]
    assert _exposed(LATE) == []
    observer = MaskedObserver([LATE])
    assert observer.knows(LATE, FIRST_FOUR)
    assert not observer.knows(LATE, LAST)
    assert not observer.knows(LATE, ALL)


def test_planted_fault_without_self_masks_a_late_vector_is_bare():
    bare = replace(LATE, self_masks=ALL)
    assert _sum(4) in _determined(bare)
    assert _exposed(bare) == [_sum(4)]


def test_planted_fault_both_secrets_of_one_member():
    assert _exposed(replace(COMPLETE, mask_keys=0b00100)) != []
    assert MaskedObserver([replace(COMPLETE, mask_keys=0b00100)]).knows(COMPLETE, 0b00100)


def test_two_colluders_learn_the_sum_of_the_other_three():
    session = replace(COMPLETE, colluders=0b00011)
    assert _determined(session) == [_sum(2, 3, 4)]
    assert _exposed(session) == []


def test_all_but_one_colluding_know_the_last_ones_offer():
    assert _determined(replace(COMPLETE, colluders=FIRST_FOUR)) == [_sum(4)]


def test_colluders_take_off_the_masks_that_they_share():
    """The other vectors are absent: the last one is covered only by masks that they know."""
    alone = replace(COMPLETE, sent=LAST, colluders=FIRST_FOUR)
    assert _determined(alone) == [_sum(4)]
    assert _determined(replace(alone, colluders=0b00111)) == []


def test_no_secret_opened_nothing_is_determined():
    assert _determined(replace(COMPLETE, self_masks=NOBODY, included=NOBODY)) == []


def test_the_sum_of_fewer_than_meant_is_exposed():
    """As if two sets had ended: secrets opened for four members, while five were meant."""
    assert _exposed(replace(LATE, included=ALL)) == [_sum(0, 1, 2, 3)]


def test_an_offer_that_is_made_again_exposes_who_left():
    again = replace(LATE, sid=NEXT_SID)
    assert _exposed(COMPLETE) == _exposed(again) == []
    assert MaskedObserver([COMPLETE, again]).knows(COMPLETE, LAST)
    assert len(_determined(COMPLETE, again)) == 2


def test_a_sum_that_is_meant_by_itself_is_exposed_where_it_is_subtracted():
    """Both sums are meant to be known, each in its session: the rule that offers are fresh prevents this."""
    assert _exposed(COMPLETE, replace(LATE, sid=NEXT_SID)) == []
    assert _exposed(COMPLETE, replace(LATE, sid=NEXT_SID, included=NOBODY)) != []


def test_fresh_offers_in_the_next_session_expose_nobody():
    fresh = replace(LATE, sid=NEXT_SID, offers=_offers(training=1))
    observer = MaskedObserver([COMPLETE, fresh])
    assert observer.exposed() == []
    assert not observer.knows(COMPLETE, LAST)
    assert not observer.knows(fresh, LAST)


def test_masks_of_one_session_do_not_help_in_another():
    second = replace(COMPLETE, sid=NEXT_SID, offers=_offers(training=1))
    assert len(_determined(COMPLETE, second)) == 2
    same_masks = replace(second, sid=SID)
    assert len(_determined(COMPLETE, same_masks)) > 2


def test_an_offer_of_several_units_counts_each():
    offers = (*_offers()[:4], (_x(4, 0), _x(4, 1)))
    assert _determined(replace(COMPLETE, offers=offers)) == [{**_sum(0, 1, 2, 3, 4), _x(4, 1): 1}]


@pytest.mark.parametrize("seed", range(60))
def test_rational_arithmetic_says_the_same(seed):
    """A second elimination, dense and with fractions, on random facts."""
    draw = random.Random(seed)
    members = draw.randint(3, 5)
    facts = [draw.getrandbits(members) for _ in range(4)]
    session = MaskedSession(SID, _offers(0, members), facts[0], facts[1], facts[2], 0, facts[3])
    known = [_dense_row(session, member) for member in range(members) if facts[0] >> member & 1]
    rank = _rank(known)
    observer = MaskedObserver([session])
    for part in range(1, 2**members):
        wanted = [Fraction(part >> member & ~(session.colluders >> member) & 1) for member in range(members)]
        wanted += [Fraction(0)] * (len(_dense_row(session, 0)) - members)
        assert observer.knows(session, part) == (_rank([*known, wanted]) == rank), (seed, part)


def _dense_row(session: MaskedSession, member: int) -> list[Fraction]:
    """Returns the row over offers, self masks and pairs; zero where a value is known."""
    n = len(session.offers)
    has = lambda members, number: bool(members >> number & 1)  # noqa: E731
    row = [Fraction(each == member and not has(session.colluders, each)) for each in range(n)]
    row += [
        Fraction(each == member and not has(session.colluders | session.self_masks, each))
        for each in range(n)
    ]
    opened = session.colluders | session.mask_keys
    for low in range(n):
        for high in range(low + 1, n):
            secret = not has(opened, low) and not has(opened, high)
            row.append(Fraction(secret * ((member == low) - (member == high))))
    return row


def _rank(rows: list[list[Fraction]]) -> int:
    left, rank = [list(row) for row in rows], 0
    for column in range(len(left[0]) if left else 0):
        pivot = next((row for row in left[rank:] if row[column]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        left.insert(rank, pivot)
        for number in range(rank + 1, len(left)):
            factor = left[number][column] / pivot[column]
            left[number] = [a - factor * b for a, b in zip(left[number], pivot, strict=True)]
        rank += 1
    return rank


# -- from transcripts, made by hand; five members, one dropout: four shares open a secret ------------------


def _masked(member: int, sid: bytes = SID) -> Masked:
    return Masked(MaskedHead(sid, KEYS[member], 0, bytes(32)), bytes(8))


def _release(member: int, included: int, sid: bytes = SID) -> Release:
    head = ReleaseHead(sid, KEYS[member], included, bytes(32), bytes(32), bytes(32))
    return Release(head, (bytes(32),) * 5)


def _facts(messages: list[Message], *colluders: int) -> MaskedSession:
    return session_of(messages, SID, KEYS, _offers(), 1, frozenset(KEYS[member] for member in colluders))


EVERY_VECTOR: list[Message] = [_masked(member) for member in range(5)]


def test_a_whole_session():
    messages = EVERY_VECTOR + [_release(member, ALL) for member in range(5)]
    assert _facts(messages) == COMPLETE


def test_one_left_out():
    messages = EVERY_VECTOR + [_release(member, FIRST_FOUR) for member in range(4)]
    assert _facts(messages) == LATE


def test_a_vector_that_was_never_sent():
    messages = EVERY_VECTOR[:4] + [_release(member, FIRST_FOUR) for member in range(4)]
    assert _facts(messages) == replace(LATE, sent=FIRST_FOUR)


def test_a_share_too_few_opens_nothing():
    messages = EVERY_VECTOR + [_release(member, ALL) for member in range(3)]
    assert _facts(messages) == replace(COMPLETE, self_masks=NOBODY, included=NOBODY)


def test_the_same_release_twice_is_one():
    messages = EVERY_VECTOR + [_release(member, ALL) for member in (0, 1, 2, 2)]
    assert _facts(messages).self_masks == NOBODY


def test_colluders_add_the_shares_that_were_dealt_to_them():
    """Two colluders, and two honest releases for each of two sets: with a threshold of 4, both are opened."""
    messages = [_release(0, ALL), _release(1, ALL), _release(0, FIRST_FOUR), _release(1, FIRST_FOUR)]
    facts = _facts(EVERY_VECTOR + messages, 2, 3)
    assert facts.self_masks == ALL
    assert facts.mask_keys == LAST
    assert _sum(4) in _exposed(facts)


def test_a_colluder_who_releases_adds_no_second_share():
    messages = EVERY_VECTOR + [_release(member, ALL) for member in (0, 1, 2)]
    assert _facts(messages, 2).self_masks == NOBODY
    assert _facts(messages, 3).self_masks == ALL


def test_mixed_releases_open_what_they_share():
    """No set has four releases, but enough of them contain the same three members."""
    sets = (0b11111, 0b11111, 0b01111, 0b01111)
    messages = EVERY_VECTOR + [_release(member, included) for member, included in enumerate(sets)]
    facts = _facts(messages)
    assert facts == replace(COMPLETE, self_masks=FIRST_FOUR, included=NOBODY)
    assert _exposed(facts) == []


def test_a_certificate_opens_what_it_holds():
    head, deal = JoinHead(SID, KEYS[0], bytes(32), 1), Deal(bytes(32), bytes(32), bytes(32))
    certificate = ResultCertificate(
        SID, FIRST_FOUR, (bytes(32),), (Dealt(head, deal, ()),) * 5, (bytes(32),) * 5, ()
    )
    assert _facts([*EVERY_VECTOR, certificate]) == LATE


def test_other_sessions_messages_are_left_alone():
    messages = [_masked(member, NEXT_SID) for member in range(5)]
    messages += [_release(member, ALL, NEXT_SID) for member in range(5)]
    assert _facts(messages) == MaskedSession(SID, _offers(), 0, 0, 0, 0)


# -- from a network's transcript -----------------------------------------------------------------------------


def _network_with_masks(included: int, sent: int) -> Network:
    """Runs five members, and writes a masked session over the transcript of their first group."""
    network = Network(Plan(5, 1), 3).run()
    line = next(line for line in network.transcript if isinstance(line.message, Sum))
    sid, keys = line.message.sid, sorted(peer.key.public for peer in network.peers)
    for number, key in enumerate(keys):
        if sent >> number & 1:
            network.transcript.append(replace(line, message=Masked(MaskedHead(sid, key, 0, bytes(32)))))
        if included >> number & 1:
            head = ReleaseHead(sid, key, included, bytes(32), bytes(32), bytes(32))
            network.transcript.append(replace(line, message=Release(head, (bytes(32),) * 5)))
    return network


def test_a_run_without_masked_vectors_has_no_masked_sessions():
    assert sessions_of(Network(Plan(4, 1), 3).run(), None) == []


def test_a_session_from_a_network():
    network = _network_with_masks(FIRST_FOUR, ALL)
    (session,) = sessions_of(network, 1)
    assert (session.sent, session.self_masks, session.mask_keys) == (ALL, FIRST_FOUR, LAST)
    keys = sorted(peer.key.public for peer in network.peers)
    owners = [network.index_of(key) for key in keys]
    assert [offer[0][1] for offer in session.offers] == owners
    assert MaskedObserver([session]).exposed() == []
    assert MaskedObserver([replace(session, self_masks=ALL)]).knows(session, LAST)


def test_colluders_are_named_by_peer():
    network = _network_with_masks(ALL, ALL)
    keys = sorted(peer.key.public for peer in network.peers)
    (session,) = sessions_of(network, 1, [2])
    assert session.colluders == 1 << keys.index(network.peers[2].key.public)
