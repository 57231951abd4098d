"""Totals that others vouch for: fetched, checked, and refused if their proof or their count is wrong."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from protocol.actions import Completed, Evidence, Failed, Healed, Send
from protocol.aggregation.masked.chunks import is_signed
from protocol.aggregation.masked.disputes import WRONG_CHECK
from protocol.aggregation.masked.linear_check import Coefficients
from protocol.aggregation.masked.thresholds import Tolerance
from protocol.aggregation.masked.totals import Totals, payload_bytes, product_bytes
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.aggregation.masked.view_change import votes_digest
from protocol.crypto.bulk_digest import bulk_digest
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.swarm.recovery.fetch import Past, ResultFetch
from protocol.vectors.shelf import in_memory
from protocol.wire import signing
from protocol.wire.bulk import Held
from protocol.wire.masked_messages import (
    Ack,
    AckVote,
    Check,
    CheckVote,
    Masked,
    MaskedHead,
    Proof,
    ProposalHead,
    Propose,
    ResultCertificate,
    Total,
    TotalHead,
    TotalPiece,
    ViewChange,
    ViewVote,
)
from protocol.wire.member_sets import everybody
from protocol.wire.messages import PieceRequest
from tests import parts
from tests.simulation.bare import Swarm
from tests.simulation.mutations import MEMBERS, OTHERS, at_masks, begin, machine, real_messages
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule

SCHEDULE = Schedule(0, MEMBERS, REDUCERS, groups=1)
LAYOUT = SCHEDULE.scheme.layout
NOW = parts.NOW
SEAT = machine(REDUCERS).participant
KEYS = {key.public: key for key in parts.members(MEMBERS)}
FIRST, SECOND, *_ = sorted(OTHERS)
WITHOUT_ME = everybody(MEMBERS) & ~1


def signed(record: Any) -> Any:
    return signing.sign(record, KEYS[record.sender])


def said(actions: list[Any]) -> list[Any]:
    return [message for action in actions if isinstance(action, Send) for message in action.messages]


def test_the_totals_of_a_reducer_wait_in_a_queue_without_memory_of_their_own():
    here = at_masks(REDUCERS)
    chunks = [message for message in real_messages(REDUCERS) if isinstance(message, Masked)]
    sends: list[Any] = []
    for chunk in chunks:
        with suppress(RemoteProtocolError):  # some are of other sessions
            sends += here.receive(chunk, NOW)
    totals = [send.messages for send in sends if isinstance(next(iter(send.messages)), Total)]
    assert totals
    assert all(isinstance(each, Held) for each in totals)


def test_a_view_goes_on_once_for_bulk_that_is_on_its_way():
    here = machine(REDUCERS)
    timeouts = replace(here.participant.timeouts, least_rate=1.0)
    here.participant = replace(here.participant, timeouts=timeouts)
    here.arriving(FIRST)  # nothing waits for bulk before the vector is masked
    begin(here, real_messages(REDUCERS))
    for key in OTHERS:
        here.arriving(key)
    assert here.deadline is not None
    due = here.deadline
    assert here.tick(due) == []
    assert here.deadline == due + 2 * LAYOUT.sent_bytes
    assert any(isinstance(each, ViewChange) for each in said(here.tick(here.deadline)))


# -- totals that come with a certificate ---------------------------------------------------------------------


def finished_without(lost: int, layout: int) -> Swarm:
    """Runs a session of the same members, in which one dies before it has sent its vector."""
    calm = Schedule(0, MEMBERS, layout, groups=1)
    swarms = (Swarm(replace(calm, crashes=(Crash(lost, at),))).run() for at in range(9, 20))
    return next(swarm for swarm in swarms if swarm.completed and lost not in contributors(swarm))


def contributors(swarm: Swarm) -> set[int]:
    return {swarm.numbers[key] for key in swarm.completed[0].end.contributors}  # type: ignore[union-attr]


def test_a_vector_that_comes_when_others_have_finished_without_it_is_not_added_to_their_total():
    here, swarm = at_masks(EVERYBODY_ADDS), finished_without(4, EVERYBODY_ADDS)
    source = next(member for member in swarm.completed if member.number != 0)
    vectors = {m.head.sender: m for m in real_messages(EVERYBODY_ADDS) if isinstance(m, Masked)}
    last = vectors.pop(sorted(OTHERS)[3])
    for vector in vectors.values():
        here.receive(vector, NOW)
    here.finished(source.participant.me, NOW)
    asked = here.receive(source.end.certificate, NOW)
    assert [type(action) for action in asked] == [Send]
    assert here.waiting_for() == (last.head.sender,)

    assert here.receive(last, NOW) == []
    assert here.waiting_for() == ()
    ended = here.receive(source.pieces[0], NOW)[-1]
    assert isinstance(ended, Completed)
    assert ended.result.tobytes() == source.end.result.tobytes()


def test_totals_that_come_with_a_certificate_are_of_another_view_and_are_not_checked_as_ones_own():
    here, swarm = at_masks(REDUCERS), finished_without(4, REDUCERS)
    source = next(member for member in swarm.completed if member.number != 0)
    here.finished(source.participant.me, NOW)
    actions = here.receive(source.end.certificate, NOW)
    for index in range(LAYOUT.chunks):
        actions += here.receive(source.pieces[index], NOW)
    assert {type(message) for message in said(actions)} == {PieceRequest}
    assert isinstance(actions[-1], Completed)
    assert actions[-1].result.tobytes() == source.end.result.tobytes()


def test_totals_that_are_here_already_are_kept_when_others_vouch_for_them():
    reduction = Swarm(SCHEDULE).run().members[0].machine._rounds._reduction
    totals = reduction.totals
    checks = tuple(totals.checks.values())

    assert reduction.want(totals.included, totals.digests, checks) == []
    assert reduction.totals is totals
    assert reduction.verified
    assert reduction.want(totals.included, totals.digests[::-1], ()) == []
    middle = LAYOUT.chunks // 2
    assert reduction.totals.missing == tuple(index for index in range(LAYOUT.chunks) if index != middle)
    assert not reduction.verified


def test_of_a_total_that_is_not_whole_no_product_is_known():
    totals = Totals(SEAT.sid, everybody(MEMBERS), LAYOUT, None, in_memory(0))
    with pytest.raises(RemoteProtocolError, match="chunk 1 of a total is missing"):
        totals.products(Coefficients(bytes(32), LAYOUT), 1)


# -- totals that come with a lock ----------------------------------------------------------------------------


def payloads() -> list[bytes]:
    """Makes totals that are all 0."""
    return [bytes(payload_bytes(LAYOUT, index)) for index in range(LAYOUT.chunks)]


def proposed_again() -> Propose:
    """Makes what all others sign together: totals of 0, products that do not fit, and a lock on them."""
    sid, digests = SEAT.sid, tuple(bulk_digest(payload) for payload in payloads())
    totals = totals_digest(sid, WITHOUT_ME, digests)
    wrong = b"\1" * product_bytes(LAYOUT)
    checks = tuple(signed(CheckVote(sid, key, WITHOUT_ME, totals, wrong)) for key in sorted(OTHERS))
    return proposed(WITHOUT_ME, Proof(digests, checks))


def proposed(included: int, proof: Proof) -> Propose:
    """Makes a proposal of all others, with a lock on these totals."""
    sid = SEAT.sid
    lock = signed(AckVote(sid, FIRST, included, totals_digest(sid, included, proof.digests)))
    views = at_masks(REDUCERS)._rounds._views
    view = next(view for view in (1, 2, 3) if views.leader(view) in OTHERS)
    votes = tuple(
        signed(ViewVote(sid, key, view, b"", (lock,) if key == FIRST else ())) for key in sorted(OTHERS)
    )
    reducers = tuple(r if included >> r & 1 else 1 for r in LAYOUT.reducers)
    head = ProposalHead(sid, views.leader(view), view, included, reducers, votes_digest(votes), (lock,))
    return Propose(signed(head), votes, (proof,))


def chunk(sender: bytes, index: int) -> Masked:
    payload = b"\1" * 4 * LAYOUT.length(index)
    head = MaskedHead(SEAT.sid, sender, index, bulk_digest(payload))
    return Masked(signed(head), payload)


def test_a_lock_on_totals_that_fit_nothing_ends_it_and_names_who_is_locked_and_who_checked_wrongly():
    here = at_masks(REDUCERS)
    here.receive(proposed_again(), NOW)
    for index, payload in enumerate(payloads()):
        here.receive(TotalPiece(SEAT.sid, index, payload), NOW)
    assert here.waiting_for() == tuple(sorted(OTHERS))
    actions = [action for key in sorted(OTHERS) for action in here.receive(chunk(key, 0), NOW)]

    evidence = [action for action in actions if isinstance(action, Evidence)]
    assert {(each.sender, each.what) for each in evidence} == {(key, WRONG_CHECK) for key in OTHERS}
    shown = {message.vote for message in said(actions) if isinstance(message, Check)}
    assert shown == {one.records[0] for one in evidence}, "others may have been sent different ones"
    assert isinstance(actions[-1], Failed)
    assert (actions[-1].reason.value, actions[-1].missing) == ("caught", (FIRST,))


def calm_totals() -> tuple[list[Any], Proof, list[TotalPiece]]:
    """Returns the messages to member 0 if nobody dies, and the totals of all with their proof."""
    swarm = Swarm(SCHEDULE).run()
    source = swarm.members[1]
    totals = source.machine._rounds._reduction.totals
    sent = [message for _, to, message in swarm.transcript if to == SEAT.me]
    checks = tuple(totals.checks[key.public] for key in parts.members(MEMBERS))
    return sent, Proof(totals.digests, checks), [source.pieces[index] for index in range(LAYOUT.chunks)]


@pytest.mark.parametrize("is_liar", [False, True], ids=["dead", "another check before"])
def test_a_lock_brings_the_check_that_is_missing_and_nothing_is_fetched_twice(is_liar):
    here, (sent, proof, _) = at_masks(REDUCERS), calm_totals()
    last = next(message for message in sent if isinstance(message, Check) and message.vote.sender == SECOND)
    for message in sent:
        if isinstance(message, Masked | Total | Check) and message is not last:
            here.receive(message, NOW)
    assert here.waiting_for() == (SECOND,)
    if is_liar:
        here.receive(Check(signed(replace(last.vote, totals=bytes(32), signature=b"")), ()), NOW)
    actions = here.receive(proposed(everybody(MEMBERS), proof), NOW)
    (ack, *_) = acks = said(actions)
    assert {type(message) for message in acks} == {Ack}
    assert ack.vote.totals == totals_digest(SEAT.sid, everybody(MEMBERS), proof.digests)


def test_totals_that_are_locked_come_from_who_is_locked_and_from_their_reducers():
    here, (sent, proof, pieces) = at_masks(REDUCERS), calm_totals()
    actions = here.receive(proposed(everybody(MEMBERS), proof), NOW)
    assert {action.to for action in actions} == {FIRST}
    assert [message.index for message in said(actions)] == [0, 1, 2, 3]
    assert here.waiting_for() == (FIRST,)

    totals = {message.head.index: message for message in sent if isinstance(message, Total)}
    assert [message.index for message in said(here.receive(totals[3], NOW))] == [4]
    for message in sent:
        if isinstance(message, Masked):
            assert here.receive(message, NOW) == []
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        here.receive(replace(pieces[4], index=LAYOUT.chunks), NOW)
    for index in (0, 1, 2, 3):
        assert here.receive(pieces[index], NOW) == []
    assert {type(message) for message in said(here.receive(pieces[4], NOW))} == {Ack}


def test_what_was_shown_of_totals_of_other_members_is_no_evidence():
    here, (sent, _, _), locked = at_masks(REDUCERS), calm_totals(), proposed_again()
    here.receive(next(message for message in sent if isinstance(message, Check)), NOW)
    here.receive(locked, NOW)
    heads = tuple(
        signed(TotalHead(SEAT.sid, sorted(KEYS)[reducer], WITHOUT_ME, index, bytes(32), digest))
        for index, (reducer, digest) in enumerate(
            zip(locked.head.reducers, locked.proofs[0].digests, strict=True)
        )
    )
    vote = next(vote for vote in locked.proofs[0].checks if vote.sender == SECOND)
    assert not [each for each in here.receive(Check(vote, heads), NOW) if isinstance(each, Evidence)]


def test_an_offer_is_masked_once():
    here = at_masks(REDUCERS)
    keys = here._joining.keys(0)
    with pytest.raises(LocalProtocolError, match="masks without an offer"):
        here._masked(keys, in_memory(0))


def test_a_head_that_its_sender_did_not_sign_is_no_evidence():
    head = chunk(FIRST, 0).head
    assert is_signed(head)
    assert not is_signed(replace(head, sender=SECOND))


# -- fetching a result ---------------------------------------------------------------------------------------


def fetch() -> ResultFetch:
    settings = parts.settings(SEAT.key, dimension=SEAT.dimension)
    past = Past(SEAT.group, parts.base(), {})
    started = ResultFetch(past, SEAT.sid, FIRST, settings, SCHEDULE.scheme)
    started.start(NOW)
    return started


def fetched(certificate: ResultCertificate, pieces: dict[int, TotalPiece]) -> tuple[ResultFetch, list[Any]]:
    under_test = fetch()
    under_test.receive(certificate, NOW)
    actions = [action for index in sorted(pieces) for action in under_test.receive(pieces[index], NOW)]
    return under_test, actions


def test_a_fetch_takes_a_certificate_and_then_each_chunk_once():
    under_test, source = fetch(), Swarm(SCHEDULE).run().members[1]
    certificate, piece = source.end.certificate, source.pieces[0]
    of_another = replace(piece, sid=bytes(32))
    for unasked, asked in ((piece, certificate), (certificate, None), (of_another, piece), (piece, None)):
        with pytest.raises(RemoteProtocolError, match="not asked for"):
            under_test.receive(unasked, NOW)
        if asked is not None:
            under_test.receive(asked, NOW)


def test_a_result_that_is_fetched_is_the_one_that_the_source_has():
    source = Swarm(SCHEDULE).run().members[1]
    under_test, actions = fetched(source.end.certificate, source.pieces)

    healed = actions[-1]
    assert isinstance(healed, Healed)
    assert healed.result.tobytes() == source.end.result.tobytes()
    assert healed.contributors == source.end.contributors
    assert (under_test.failed, under_test.deadline) == (False, None)


def test_a_result_that_all_signed_and_that_counts_wrongly_ends_the_fetch():
    source = Swarm(SCHEDULE).run().members[1]
    good, last = source.end.certificate, LAYOUT.chunks - 1
    length = LAYOUT.length(last)
    words = np.frombuffer(source.pieces[last].payload[: 4 * length], dtype="<u4").copy()
    words[-1] += np.uint32(1)
    payload = words.tobytes() + bytes(source.pieces[last].payload[4 * length :])
    digests = (*good.digests[:-1], bulk_digest(payload))
    totals = totals_digest(good.sid, good.included, digests)
    releases = tuple(signed(replace(head, totals=totals)) for head in good.releases)
    forged = replace(good, digests=digests, releases=releases)
    pieces = {**source.pieces, last: TotalPiece(good.sid, last, payload)}
    under_test, actions = fetched(forged, pieces)

    assert parts.kinds(actions).count("Keep") == LAYOUT.chunks
    assert "Healed" not in parts.kinds(actions)
    assert (under_test.failed, under_test.deadline) == (True, None)


# -- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("members", "dropouts"), [(4, 2), (4, -1), (10, 5), (3, 1)])
def test_a_group_that_would_withstand_too_much_is_no_tolerance(members, dropouts):
    with pytest.raises(ValueError, match=f"dropouts {dropouts} of {members}: allowed are 0 to"):
        Tolerance(members, dropouts)
