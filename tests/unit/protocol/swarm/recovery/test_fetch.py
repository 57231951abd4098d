"""Fetching a certificate or a base: only what was requested and fits its digest, and not for ever."""

from dataclasses import replace

import numpy as np
import pytest

from protocol.actions import Adopted, Completed, Evidence, Healed
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import ballot_of, of_keys
from protocol.quorum.lineage import MAX_LINKS, Line
from protocol.swarm.recovery.fetch import (
    LINE_S,
    PATIENCE_S,
    WINDOW,
    BaseFetch,
    CertificateFetch,
    Past,
    check_certificate,
    check_link,
    check_votes,
)
from protocol.vectors.pieces import PIECE_WORDS, piece, raw
from protocol.wire.ids import LINEAGE
from protocol.wire.masked_messages import ResultCertificate
from protocol.wire.messages import BasePiece, Certificate, LineagePiece, Link, PieceRequest, Sum
from tests.lines import chain, link, link_of, session_of
from tests.parts import (
    NOW,
    base,
    base_of,
    completed,
    group,
    kinds,
    machines,
    mean_of,
    members,
    no_line,
    only,
    outbox,
    resigned,
    settings,
    shared,
    stranger,
    sums_to,
    vector,
)

KEYS = members(3)
ONE, TWO, THREE = (key.public for key in KEYS)
SOURCE = THREE


class Finished:
    """A session that completed: its certificate and all its partial sums."""

    def __init__(self, dimension: int = 5) -> None:
        vectors = [vector(number, dimension) for number in range(3)]
        ring = ShareSettings("ring", 4.0, 100.0)
        results = shared(machines(3, dimension, ring), vectors)
        others = [sums_to(results, key) for key in (ONE, TWO)]
        self.sums: list[Sum] = [*others[1][0], *others[0][1], *others[0][2]]
        last = completed(machines(3, dimension, ring), vectors)[0]
        self.mean = mean_of(last)
        self.certificate = only(last, Completed).certificate
        self.sid = self.certificate.sid

    def fetch(self, dimension: int = 5, seen: dict | None = None) -> CertificateFetch:
        past = Past(group(KEYS), base(), seen or {})
        own = settings(KEYS[0], dimension=dimension, shares=ShareSettings("ring", 4.0, 100.0))
        found = CertificateFetch(past, self.sid, SOURCE, own)
        found.start(NOW)
        return found


@pytest.fixture(scope="module")
def finished() -> Finished:
    return Finished()


def refused(fetch, message, match: str) -> None:
    before = (fetch.failed, fetch.deadline)
    with pytest.raises(RemoteProtocolError, match=match):
        fetch.receive(message, NOW + 1)
    assert before == (fetch.failed, fetch.deadline)


# -- certificates --------------------------------------------------------------------------------------


def test_a_certificate_with_its_pieces_gives_the_mean_that_the_others_have(finished):
    fetch = finished.fetch()
    wanted = outbox(fetch.receive(finished.certificate, NOW + 1), SOURCE)
    assert [(one.of, one.index) for one in wanted] == [(ONE, 0), (TWO, 0), (THREE, 0)]
    actions = [action for message in finished.sums for action in fetch.receive(message, NOW + 2)]

    assert kinds(actions) == ["Keep", "Keep", "Keep", "Healed"]
    healed = only(actions, Healed)
    assert healed.result.tobytes() == finished.mean.tobytes()
    assert (healed.sid, healed.source, healed.certificate) == (finished.sid, SOURCE, finished.certificate)
    assert (fetch.deadline, fetch.failed) == (None, False)


def test_no_more_than_a_window_of_pieces_is_asked_for_at_once():
    dimension = PIECE_WORDS + 1
    finished = Finished(dimension)
    fetch = finished.fetch(dimension)
    asked = outbox(fetch.receive(finished.certificate, NOW), SOURCE)
    assert len(asked) == WINDOW
    more = [fetch.receive(message, NOW) for message in finished.sums]

    assert [len(outbox(actions, SOURCE)) for actions in more] == [1, 1, 0, 0, 0, 0]
    assert kinds(more[-1]) == ["Keep", "Healed"]


def test_each_piece_moves_the_deadline_on_and_silence_ends_the_fetch(finished):
    fetch = finished.fetch()
    fetch.receive(finished.certificate, NOW + 4)
    fetch.receive(finished.sums[0], NOW + 8)
    fetch.tick(NOW + 12.9)
    assert not fetch.failed

    fetch.tick(NOW + 13)
    assert (fetch.failed, fetch.deadline) == (True, None)
    fetch.tick(NOW + 99)


def test_certificates_that_prove_nothing_are_refused(finished):
    good = finished.certificate
    first, second, third = good.sums
    stranger_sum = resigned(first, stranger(), sender=stranger().public)
    bad = {
        "was not asked for": replace(good, sid=bytes(32)),
        "other senders": replace(good, sums=(first, second)),
        "with other senders": replace(good, sums=(second, first, third)),
        "senders than its session": replace(good, sums=(stranger_sum, second, third)),
        "of another session or group": replace(
            good, sums=(resigned(first, KEYS[0], sid=bytes(32)), second, third)
        ),
        "session or group": replace(
            good, sums=(resigned(first, KEYS[0], contributors=bytes(32)), second, third)
        ),
        "of another length": replace(
            good, sums=(resigned(first, KEYS[0], pieces=first.pieces * 2), second, third)
        ),
        "bad sum signature": replace(good, sums=(replace(first, pieces=(bytes(32),)), second, third)),
    }
    for match, certificate in bad.items():
        refused(finished.fetch(), certificate, match)


def test_a_second_certificate_and_pieces_that_the_first_does_not_name_are_refused(finished):
    fetch = finished.fetch()
    piece_one = finished.sums[0]
    refused(fetch, piece_one, "does not hold")
    fetch.receive(finished.certificate, NOW)

    refused(fetch, finished.certificate, "was not asked for")
    refused(fetch, resigned(piece_one, KEYS[0], pieces=(bytes(32),)), "does not hold")
    refused(fetch, replace(piece_one, index=1), "a sum of 1 pieces, piece 1")
    refused(fetch, replace(piece_one, payload=bytes(20)), "not what its header names")
    refused(fetch, BasePiece(bytes(32), 0, b""), "was not asked for")
    fetch.receive(piece_one, NOW)
    refused(fetch, piece_one, "here already")


def test_a_certificate_with_another_sum_than_the_one_that_was_seen_is_evidence(finished):
    seen = resigned(finished.certificate.sums[1], KEYS[1], pieces=(bytes(32),))
    fetch = finished.fetch(seen={TWO: seen, ONE: finished.certificate.sums[0]})
    evidence = only(fetch.receive(finished.certificate, NOW), Evidence)

    assert (evidence.sender, evidence.records) == (TWO, (seen, finished.certificate.sums[1]))


def test_a_certificate_of_nobody_certifies_nothing():
    with pytest.raises(RemoteProtocolError):
        check_certificate(Certificate(bytes(32), ()), (ONE,), 5)


# -- bases ---------------------------------------------------------------------------------------------

DIMENSION = PIECE_WORDS + 2


def fetching(held: np.ndarray, generation: int = 4) -> BaseFetch:
    wanted = base_of(held, generation)
    own = settings(KEYS[0], parameters='{"model":"m"}', dimension=len(held))
    return BaseFetch(
        wanted, SOURCE, own, lambda links: (Line(weak=links[-1] if links else None), (TWO, THREE))
    )


def judged(fetch: BaseFetch, held: np.ndarray, generation: int = 4) -> list:
    """Starts a fetch and hands it its line; returns its next requests."""
    fetch.start(NOW)
    return fetch.receive(no_line(base_of(held, generation)), NOW)


def pieces_of(held: np.ndarray, digest: bytes) -> list[BasePiece]:
    count = -(-len(held) // PIECE_WORDS)
    return [BasePiece(digest, index, bytes(raw(held, piece(len(held), index)))) for index in range(count)]


def test_a_base_is_fetched_piece_by_piece_and_checked_against_its_digest():
    held = vector(1, DIMENSION)
    fetch = fetching(held)
    wanted = outbox(judged(fetch, held), SOURCE)
    assert [(type(one), one.of, one.index) for one in wanted] == [
        (PieceRequest, b"", 0),
        (PieceRequest, b"", 1),
    ]
    second, first = pieces_of(held, base_of(held, 4).digest)[::-1]
    assert fetch.receive(second, NOW + 1) == []
    adopted = only(fetch.receive(first, NOW + 2), Adopted)

    assert adopted.vector.tobytes() == held.tobytes()
    assert (adopted.base, adopted.trusted, fetch.deadline) == (base_of(held, 4), (TWO, THREE), None)


@pytest.mark.parametrize(
    ("held", "given"),
    [(vector(1, 2), np.zeros(2, dtype="<f4")), (np.array([1.0, np.nan], dtype="<f4"),) * 2],
    ids=["another digest", "no numbers"],
)
def test_a_base_with_another_digest_or_without_numbers_is_not_adopted(held, given):
    fetch = fetching(held)
    judged(fetch, held)

    assert fetch.receive(pieces_of(given, base_of(held, 4).digest)[0], NOW) == []
    assert fetch.failed


def test_pieces_of_a_base_that_do_not_belong_here_are_refused(finished):
    held = vector(1, DIMENSION)
    fetch = fetching(held)
    judged(fetch, held)
    first, _ = pieces_of(held, base_of(held, 4).digest)

    refused(fetch, finished.certificate, "was not asked for")
    refused(fetch, replace(first, digest=bytes(32)), "was not asked for")
    refused(fetch, replace(first, index=2), "was not asked for")
    refused(fetch, replace(first, payload=first.payload[:-4]), "bytes")
    fetch.receive(first, NOW)
    refused(fetch, first, "is here already")


# -- lines ---------------------------------------------------------------------------------------------


def asking(held: np.ndarray, answer: tuple | None = (Line(), ())) -> tuple[BaseFetch, list]:
    """Makes a fetch that has requested the first link, and records what it judges."""
    seen: list = []
    own = settings(KEYS[0], dimension=len(held))
    fetch = BaseFetch(base_of(held, 3), SOURCE, own, lambda links: seen.append(links) or answer)
    (request,) = outbox(fetch.start(NOW), SOURCE)
    assert (request.sid, request.of, request.index) == (base_of(held, 3).digest, LINEAGE, 0)
    return fetch, seen


HELD = vector(1, 5)
LINKS = chain([KEYS, KEYS, KEYS])[0]


def linked(index: int, count: int = 3, links: tuple | None = None) -> LineagePiece:
    found = tuple(LINKS[index : index + 1]) if links is None else links
    return LineagePiece(base_of(HELD, 3).digest, index, count, found)


def test_a_line_is_fetched_link_by_link_and_judged_as_a_whole():
    fetch, seen = asking(HELD)
    for index in range(2):
        (request,) = outbox(fetch.receive(linked(index), NOW), SOURCE)
        assert (request.of, request.index) == (LINEAGE, index + 1)
    assert seen == []
    (request,) = outbox(fetch.receive(linked(2), NOW), SOURCE)

    assert seen == [tuple(LINKS)]
    assert (request.of, request.index) == (b"", 0)
    refused(fetch, linked(2), "was not asked for")


def test_a_source_that_has_no_more_links_is_judged_by_those_it_gave():
    fetch, seen = asking(HELD)
    fetch.receive(linked(0), NOW)
    fetch.receive(linked(1, links=()), NOW)

    assert seen == [(LINKS[0],)]


def test_a_line_that_does_not_suffice_ends_the_fetch():
    fetch, _ = asking(HELD, None)

    assert fetch.receive(linked(0, count=1), NOW) == []
    assert (fetch.failed, fetch.deadline) == (True, None)


def test_links_that_were_not_asked_for_are_refused_and_change_nothing():
    fetch, seen = asking(HELD)
    refused(fetch, linked(1), "link 1 of 3 was not asked for")
    refused(fetch, linked(0, count=MAX_LINKS + 2), "was not asked for")
    refused(fetch, BasePiece(base_of(HELD, 3).digest, 0, HELD.tobytes()), "was not asked for")
    refused(fetch, replace(linked(0), digest=bytes(32)), "was not asked for")

    assert seen == []


def test_a_line_has_its_time_however_often_a_link_comes():
    """A peer that sends a link every 4 s could otherwise hold up a node for minutes."""
    fetch, _ = asking(HELD)
    many = [linked(number, count=60, links=(LINKS[0],)) for number in range(20)]
    for number in range(int(LINE_S / 4)):
        fetch.receive(many[number], NOW + 4 * number)
        assert fetch.deadline <= NOW + LINE_S
    fetch.tick(NOW + LINE_S)

    assert fetch.failed


def test_the_time_of_a_line_is_not_that_of_its_vector():
    fetch, _ = asking(HELD)
    fetch.receive(linked(0, count=1), NOW + LINE_S - 1)

    assert fetch.deadline == NOW + LINE_S - 1 + PATIENCE_S


def broken_links() -> dict[str, Link]:
    """Makes broken links by the reason for their refusal."""
    good = link(KEYS, base())
    (certificate,) = good.sums
    first, *others = certificate.sums
    forged = resigned(first, stranger(), pieces=(bytes([1]) * 32,))
    masked = ResultCertificate(certificate.sid, 7, (), (), (), ())
    few = session_of(KEYS[:2], base())
    unsigned = replace(good.group, signature=bytes(64))
    return {
        "without its one certificate": Link(good.group, (), ()),
        "its one certificate": Link(good.group, (masked,), good.sums),
        "one certificate": Link(replace(good.group, readys=()), (), good.sums),
        "bad group signature": Link(unsigned, (), good.sums),
        "a GROUP of 2": link_of(few, KEYS[:2]),
        "another swarm": link(KEYS, base(), task="other"),
        "link of another swarm": link(KEYS, base(), parameters=bytes(32)),
        "the certificate of another session": Link(good.group, (), link(KEYS, base(1)).sums),
        "bad sum signature": Link(good.group, (), (replace(certificate, sums=(forged, *others)),)),
        "other senders": Link(good.group, (), (replace(certificate, sums=tuple(others)),)),
        "of another length": link_of(good.group, KEYS, pieces=2),
        "of the other kind": Link(good.group, (masked,), ()),
    }


@pytest.mark.parametrize("why", broken_links())
def test_a_link_that_proves_nothing_is_refused(why):
    fetch, _ = asking(HELD)
    refused(fetch, linked(0, links=(broken_links()[why],)), why)
    fetch.receive(linked(0), NOW)

    assert len(fetch._links) == 1


def test_where_sums_are_masked_groups_of_four_have_a_masked_certificate():
    four = members(4)
    masked = settings(four[0], masked=MaskedSettings(4.0, None))
    summed = link(four, base())
    check_link(summed, settings(four[0]))
    check_link(link(KEYS, base()), masked)
    with pytest.raises(RemoteProtocolError, match="of the other kind"):
        check_link(summed, masked)
    none = Link(summed.group, (ResultCertificate(summed.certificate.sid, 15, (), (), (), ()),), ())
    with pytest.raises(RemoteProtocolError, match="a certificate of another group"):
        check_link(none, masked)


# -- votes ---------------------------------------------------------------------------------------------


def test_where_votes_count_a_certificate_has_a_quorum():
    common = group(KEYS)
    named = of_keys((TWO, THREE))
    past = Past(common, base(), {}, ballot_of(common.readys, (), named))
    check_votes(past, (ONE, min(TWO, THREE)))
    with pytest.raises(RemoteProtocolError, match="without a quorum of the electors"):
        check_votes(past, (ONE, max(TWO, THREE)))

    check_votes(replace(past, ballot=None), ())


def test_answers_that_are_on_their_way_have_a_common_time_that_nothing_renews():
    """A trickling source once could have been slow with each piece anew."""
    held, rate = vector(1, DIMENSION), 64_000.0
    own = settings(KEYS[0], parameters='{"model":"m"}', dimension=DIMENSION, least_rate=rate)
    fetch = BaseFetch(base_of(held, 4), SOURCE, own, lambda _: (Line(weak=None), (TWO, THREE)))
    fetch.arriving(NOW)  # nothing was asked for yet
    assert fetch.deadline is None
    judged(fetch, held)
    ends_at = NOW + 1 + PATIENCE_S + 2 * 4 * DIMENSION / rate
    fetch.arriving(NOW + 1)
    fetch.arriving(NOW + 3)
    first, _ = pieces_of(held, base_of(held, 4).digest)
    fetch.receive(first, NOW + 20)
    assert fetch.deadline == ends_at
    fetch.tick(ends_at - 0.1)
    assert not fetch.failed
    fetch.tick(ends_at)
    assert fetch.failed
