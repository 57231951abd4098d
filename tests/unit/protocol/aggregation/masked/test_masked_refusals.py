"""What a masked machine refuses in the second half of a session, one rule at a time."""

from dataclasses import replace
from typing import Any

import pytest

from protocol.actions import Evidence, Failed
from protocol.aggregation.masked.release import release_digest
from protocol.aggregation.masked.unmasking import check_result, totals_digest
from protocol.aggregation.masked.view_change import ViewChanges, votes_digest
from protocol.crypto.bulk_digest import bulk_digest
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.wire import signing
from protocol.wire.masked_messages import (
    Ack,
    AckVote,
    Check,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Proof,
    ProposalHead,
    Propose,
    Release,
    ResultCertificate,
    Total,
    ViewChange,
    ViewVote,
)
from protocol.wire.member_sets import everybody
from tests import parts
from tests.simulation.bare import Swarm
from tests.simulation.mutations import MEMBERS, OTHERS, at_masks, begin, machine, real_messages
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Schedule

SCHEDULE = Schedule(0, MEMBERS, REDUCERS, groups=1)
LAYOUT = SCHEDULE.scheme.layout
WHOLE = everybody(MEMBERS)
NOW = parts.NOW
STRANGER = parts.stranger()


def first(kind: type, layout: int = REDUCERS) -> Any:
    return next(message for message in real_messages(layout) if isinstance(message, kind))


def signed(record: Any, **changes: Any) -> Any:
    whole = replace(record, **changes)
    return signing.sign(whole, OTHERS[whole.sender])


def refused(message: Any, match: str, layout: int = REDUCERS) -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        at_masks(layout).receive(message, NOW)


def vote(number: int, view: int = 1, locks: tuple[AckVote, ...] = ()) -> ViewVote:
    sender = sorted(OTHERS)[number]
    return signed(ViewVote(SCHEDULE_SID, sender, view, b"", locks))


SCHEDULE_SID = machine(REDUCERS).participant.sid


# -- joins --------------------------------------------------------------------------------------------------


def test_a_certificate_that_comes_too_soon_or_is_of_other_votes():
    swarm = Swarm(SCHEDULE).run()
    right = next(message for _, _, message in swarm.transcript if isinstance(message, JoinCertificate))
    here, joins = (
        machine(REDUCERS),
        [message for message in real_messages(REDUCERS) if isinstance(message, Join)],
    )
    refusal = "a certificate of other votes than its session's"
    with pytest.raises(RemoteProtocolError, match=refusal):
        here.receive(right, NOW)
    for join in joins:
        here.receive(join, NOW)
    for wrong in (replace(right, joins=bytes(32)), replace(right, signatures=right.signatures[1:])):
        with pytest.raises(RemoteProtocolError, match=refusal):
            here.receive(wrong, NOW)
    assert here.stage == "shares"
    here.receive(right, NOW)
    assert here.stage == "sums"


def test_what_came_too_early_ends_with_the_session_that_it_ends():
    """A vector that contradicts itself ends it; the machine ignores what follows."""
    swarm = Swarm(SCHEDULE).run()
    right = next(message for _, _, message in swarm.transcript if isinstance(message, JoinCertificate))
    here, masked = machine(REDUCERS), first(Masked)
    for message in real_messages(REDUCERS):
        if isinstance(message, Join):
            here.receive(message, NOW)
    payload = bytes(len(masked.payload))
    head = signed(masked.head, digest=bulk_digest(payload), signature=b"")
    for message in (masked, Masked(head, payload), first(Total)):
        assert here.receive(message, NOW) == []
    actions = here.receive(right, NOW)
    assert [action.sender for action in actions if isinstance(action, Evidence)] == [masked.head.sender]
    assert isinstance(actions[-1], Failed)


def test_a_join_for_somebody_else_or_with_other_hashes():
    join = first(Join)
    lists = (replace(join, hashes=join.hashes[1:]), replace(join, deals=(*join.deals, *join.deals)))
    for message in lists:
        with pytest.raises(RemoteProtocolError, match="a wrong number of deals or hashes"):
            machine(REDUCERS).receive(message, NOW)
    with pytest.raises(RemoteProtocolError, match="for another member, or for another number of steps"):
        machine(REDUCERS).receive(replace(join, recipient=join.head.sender), NOW)
    with pytest.raises(RemoteProtocolError, match="deals are not what its head names"):
        machine(REDUCERS).receive(replace(join, deals=(replace(join.deals[0], shares=bytes(32)),)), NOW)


def test_a_join_with_too_few_bytes_of_shares():
    member = Swarm(SCHEDULE).members[1]
    member.machine.start(parts.vector(0, 39), bytes(32), NOW)
    here = machine(REDUCERS)
    join = member.machine._joining.join(here.participant.me)
    channel = member.participant.channel(member.participant.me, here.participant.me)
    about = b"join" + join.head.sid + join.head.sender + join.recipient + join.head.deals
    if join.head.sid == here.participant.sid:
        with pytest.raises(RemoteProtocolError, match="63 bytes of shares"):
            here.receive(replace(join, payload=channel.seal(0, about, bytes(63))), NOW)


def test_a_join_and_a_vote_come_once():
    here = machine(REDUCERS)
    for kind, match in ((Join, "a JOIN that is here already"), (Joined, "a JOINED that is here already")):
        here.receive(first(kind), NOW)
        with pytest.raises(RemoteProtocolError, match=match):
            here.receive(first(kind), NOW)


def test_two_joins_of_a_member_are_evidence():
    here, join = machine(REDUCERS), first(Join)
    here.receive(join, NOW)
    other = replace(join, head=signed(join.head, deals=bytes(32), signature=b""))
    evidence = here.receive(other, NOW)[0]
    assert (evidence.sender, evidence.what) == (join.head.sender, "two different joins in one session")
    assert evidence.records == (join.head, other.head)


def test_a_vote_about_other_members():
    joined = first(Joined)
    with pytest.raises(RemoteProtocolError, match="about other members"):
        machine(REDUCERS).receive(replace(joined, heads=joined.heads[1:]), NOW)


def test_a_session_starts_once():
    with pytest.raises(LocalProtocolError, match="starts once"):
        machine(REDUCERS).start(parts.vector(0, 39), bytes(32), NOW)


# -- chunks, totals, checks ---------------------------------------------------------------------------------


def changed(kind: type, **changes: Any) -> Any:
    return replace(first(kind), **changes)


def shorter_total(end: int) -> Total:
    total = first(Total)
    payload = bytes(total.payload)[:end]
    return replace(total, head=signed(total.head, digest=bulk_digest(payload)), payload=payload)


def shorter_lock() -> ViewChange:
    digests = (bytes(32),)
    lock = lock_of(0, totals=totals_digest(SCHEDULE_SID, WHOLE, digests))
    return ViewChange(vote(0, locks=(lock,)), (Proof(digests, ()),))


def locked(number: int = 0, **changes: Any) -> ViewChange:
    """Makes member 0's vote with the lock of a member."""
    return ViewChange(vote(0, locks=(lock_of(number, **changes),)), ())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: changed(Masked, payload=b"1234"), "has 4 bytes"),
        (lambda: changed(Total, payload=bytes(len(first(Total).payload))), "not what its head names"),
        (lambda: changed(Total, inputs=first(Total).inputs[1:]), "other inputs"),
        (lambda: shorter_total(8), "of a total has 8 bytes"),
        (lambda: shorter_total(-1), "bytes of carries for"),
        (lambda: changed(Check, vote=signed(first(Check).vote, products=b"1234")), "4 bytes of products"),
        (lambda: changed(Ack, digests=first(Ack).digests[:-1]), "other totals than it shows"),
        (lambda: changed(Ack, digests=first(Ack).digests[::-1]), "other totals than it shows"),
        (lambda: changed(Release, head=signed(first(Release).head, joins=bytes(32))), "for other joins"),
        (lambda: changed(Release, shares=first(Release).shares[1:]), "other shares than its head names"),
        (lambda: ViewChange(vote(0, 0), ()), "are allowed"),
        (lambda: ViewChange(vote(0, 60), ()), "are allowed"),
        (lambda: locked(1), "another member's lock"),
        (lambda: locked(included=3), "too few members, or strangers"),
        (lambda: locked(included=WHOLE | 1 << 40), "strangers"),
        (shorter_lock, "totals of another length"),
        (
            lambda: signing.sign(Dispute(SCHEDULE_SID, STRANGER.public, WHOLE, 0), STRANGER),
            "somebody who is not in this session",
        ),
    ],
)
def test_messages_that_are_refused(make, match):
    refused(make(), match)


def test_a_dispute_of_a_chunk_that_does_not_exist_waits():
    sender = sorted(OTHERS)[0]
    assert at_masks().receive(signed(Dispute(SCHEDULE_SID, sender, WHOLE, 4000)), NOW) == []


# -- the end ------------------------------------------------------------------------------------------------


def test_a_share_that_is_no_number_of_the_field_was_not_dealt():
    release = first(Release)
    shares = (b"\xff" * 32, *release.shares[1:])
    head = signed(release.head, shares=release_digest(shares))
    here = at_masks()
    evidence, *shown = here.receive(Release(head, shares), NOW)
    assert evidence.what == "a share that was not dealt to it"
    assert [each.to for each in shown] == [key for key in here.participant.others if key != head.sender]
    assert here.receive(Release(head, shares), NOW) == [], "it is passed on once"
    (evidence,) = here.receive(release, NOW)
    assert evidence.what == "two different releases in one session", "nobody can prove the first one alone"


def certificate() -> ResultCertificate:
    return Swarm(SCHEDULE).run().completed[0].end.certificate  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"included": 7}, "too few members"),
        ({"included": WHOLE | 1 << 9}, "strangers"),
        ({"dealt": ()}, "another group"),
        ({"sid": bytes(32)}, "another session"),
        ({"secrets": ()}, "another group"),
        ({"digests": ()}, "vectors of another length"),
        ({"releases": ()}, "too few releases"),
        ({"digests": (bytes(32),) * LAYOUT.chunks}, "a release for something else"),
        ({"secrets": (bytes(32),) * MEMBERS}, "a secret that was not committed to"),
    ],
)
def test_a_certificate_that_proves_nothing(changes, match):
    good = certificate()
    arguments = (machine(REDUCERS).participant.group, SCHEDULE.scheme)
    check_result(good, *arguments)
    with pytest.raises(RemoteProtocolError, match=match):
        check_result(replace(good, **changes), *arguments)


def test_replies_that_nobody_asked_for():
    with pytest.raises(RemoteProtocolError, match="not running"):
        at_masks().receive(certificate(), NOW)


# -- views --------------------------------------------------------------------------------------------------


def lock_of(number: int, **changes: Any) -> AckVote:
    sender = sorted(OTHERS)[number]
    digests = (bytes(32),) * LAYOUT.chunks
    return signed(
        AckVote(SCHEDULE_SID, sender, WHOLE, totals_digest(SCHEDULE_SID, WHOLE, digests)), **changes
    )


def test_locks_that_nothing_proves():
    digests = (bytes(32),) * LAYOUT.chunks
    locked = vote(0, locks=(lock_of(0),))
    refused(ViewChange(locked, ()), "a lock without its proof")
    refused(ViewChange(vote(0), (Proof(digests, ()),)), "a lock without its proof")
    refused(ViewChange(locked, (Proof(digests[1:], ()),)), "other totals than the lock names")
    refused(ViewChange(locked, (Proof(digests, ()),)), "without the checks of all")


def checks_of(totals: bytes, count: int = 0) -> tuple[Any, ...]:
    """Makes everybody's checks as the proof of a lock holds them; member 0's is not signed."""
    some = first(Check).vote
    length = len(some.products) - count
    return tuple(
        replace(some, sender=key, totals=totals, products=bytes(length), included=WHOLE)
        for key in machine(REDUCERS).participant.members
    )


def test_a_proof_with_checks_of_something_else_or_too_short_or_unsigned():
    digests = (bytes(32),) * LAYOUT.chunks
    lock = lock_of(0)
    locked = vote(0, locks=(lock,))
    refused(ViewChange(locked, (Proof(digests, checks_of(bytes(32))),)), "a check of something else")
    refused(ViewChange(locked, (Proof(digests, checks_of(lock.totals, 4)),)), "bytes of products")
    refused(ViewChange(locked, (Proof(digests, checks_of(lock.totals)),)), "bad check signature")


def test_two_votes_in_one_view_are_evidence():
    here = at_masks()
    here.receive(ViewChange(vote(0), ()), NOW)
    other = signed(vote(0), holds=b"\1")
    assert here.receive(ViewChange(other, ()), NOW)[0].what == "two different votes in one view"


def leader(view: int) -> bytes:
    return ViewChanges(machine(REDUCERS).participant, SCHEDULE.scheme).leader(view)


VIEW = next(view for view in (1, 2, 3) if leader(view) in OTHERS)


def proposal(votes: tuple[ViewVote, ...], **changes: Any) -> Propose:
    reducers = LAYOUT.reducers
    values = {"view": VIEW, "included": WHOLE & ~1, "reducers": tuple(r or 1 for r in reducers), "locks": ()}
    head = ProposalHead(SCHEDULE_SID, leader(VIEW), votes=votes_digest(votes), **{**values, **changes})
    return Propose(signing.sign(head, OTHERS[head.sender]), votes, ())


def votes(view: int = VIEW) -> tuple[ViewVote, ...]:
    return tuple(vote(number, view) for number in range(4))


def test_a_proposal_for_the_view_that_one_is_in_comes_too_late():
    refused(proposal(votes(), view=0, included=WHOLE), "a proposal for a view that is over")


def test_a_proposal_as_it_should_be_is_taken_and_another_one_is_evidence():
    here = at_masks()
    here.receive(proposal(votes()), NOW)
    assert here._rounds.view.included == WHOLE & ~1
    other = proposal(votes(), reducers=(1,) * LAYOUT.chunks)
    here._rounds._reduction.view = replace(here._rounds.view, number=0)
    assert here.receive(other, NOW)[0].what == "two different proposals for one view"


@pytest.mark.parametrize(
    ("propose", "match"),
    [
        (lambda: proposal(votes(), view=9), "does not lead it"),
        (lambda: proposal(votes()[:2]), "too few votes"),
        (lambda: replace(proposal(votes()), votes=votes()[::-1]), "too few votes"),
        (lambda: proposal((*votes()[:3], replace(votes()[3], sender=b"\xff" * 32))), "other votes"),
        (lambda: proposal(votes(3 - VIEW + 1 if VIEW != 2 else 1)), "votes for another view"),
        (lambda: proposal(votes(), included=3), "includes too few"),
        (lambda: proposal(votes(), included=WHOLE), "members that are silent"),
        (lambda: proposal(votes(), reducers=()), "chunks that nobody adds up"),
        (lambda: proposal(votes(), reducers=(0,) * LAYOUT.chunks), "chunks that nobody adds up"),
        (lambda: proposal(votes(), locks=(lock_of(0),)), "passes over a lock"),
        (lambda: proposal((vote(0, VIEW, (lock_of(0),)), *votes()[1:])), "passes over a lock"),
    ],
)
def test_proposals_that_are_refused(propose, match):
    refused(propose(), match)


def test_a_vector_of_everybody_who_adds_up_comes_once():
    here = at_masks(EVERYBODY_ADDS)
    here.receive(first(Masked, EVERYBODY_ADDS), NOW)
    with pytest.raises(RemoteProtocolError, match="here already"):
        here.receive(first(Masked, EVERYBODY_ADDS), NOW)


# -- what a session asks a machine ---------------------------------------------------------------------------


def test_what_a_session_asks_before_while_and_after():
    here = machine(REDUCERS)
    assert (here.stage, here.headers) == ("shares", {})
    assert here.waiting_for() == tuple(sorted(OTHERS))
    assert here.finished(sorted(OTHERS)[0], NOW) == []
    begin(here, real_messages(REDUCERS))
    assert here.stage == "sums"
    assert set(here.waiting_for()) <= set(OTHERS)
    assert here.unreachable(parts.stranger().public, NOW) == []
    assert here.tick(NOW) == []
    ended = here.tick(NOW + 1000.0)
    assert ended[-1].reason.value == "masks-timeout"
    assert (here.waiting_for(), here.deadline) == ((), None)
    assert here.unreachable(sorted(OTHERS)[0], NOW) == []
    with pytest.raises(RemoteProtocolError, match="not running"):
        here.receive(first(Masked), NOW)


def test_a_member_that_is_lost_before_its_join_ends_it_and_after_its_vote_does_nothing():
    here = machine(REDUCERS)
    lost = first(Join).head.sender
    assert here.unreachable(lost, NOW)[-1].missing == (lost,)
    other = machine(REDUCERS)
    for join in (message for message in real_messages(REDUCERS) if isinstance(message, Join)):
        other.receive(join, NOW)
    before = other.deadline
    assert other.unreachable(lost, NOW) == []
    assert other.deadline < before
    assert other.tick(other.deadline)[-1].reason.value == "joins-timeout"


def test_who_has_finished_is_asked_once():
    here = at_masks()
    finished = sorted(OTHERS)[0]
    assert len(here.finished(finished, NOW)) == 1
    assert here.finished(finished, NOW) == []
    assert here.receive(certificate(), NOW)  # the total's chunks are asked for
    assert here.finished(sorted(OTHERS)[1], NOW) == []


def test_a_total_of_who_does_not_add_it_up_waits():
    total = first(Total)
    other = next(key for key in sorted(OTHERS) if key != total.head.sender)
    assert at_masks().receive(replace(total, head=signed(total.head, sender=other)), NOW) == []
