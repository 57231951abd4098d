"""Fetching what a node missed: a certificate that proves a base, or a base with its line.

Both are small machines with one source, a window of pieces in flight, and a deadline that each piece
extends. A machine that ends without a result sets `failed`; CatchUp then tries another source.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from protocol.actions import Action, Adopted, Healed, Keep, Send, Unbind
from protocol.aggregation.additive.machine import check_piece
from protocol.aggregation.additive.total import Total
from protocol.aggregation.equivocation import caught
from protocol.aggregation.masked.thresholds import Scheme
from protocol.aggregation.masked.totals import Totals
from protocol.aggregation.masked.unmasking import check_result, result_of
from protocol.aggregation.transfer import transfer_s
from protocol.crypto.bulk_digest import bulk_digest
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Ballot
from protocol.quorum.lineage import MAX_LINKS, Line, members_of
from protocol.swarm.meeting.group_seeker import check_group, check_step
from protocol.swarm.node_state import Settings
from protocol.vectors.pieces import WORD_BYTES, base_digest, piece, piece_bytes, piece_count
from protocol.wire import signing
from protocol.wire.ids import LINEAGE, NOBODY
from protocol.wire.masked_messages import ReleaseHead, ResultCertificate, TotalPiece
from protocol.wire.member_sets import members_in
from protocol.wire.messages import (
    Base,
    BasePiece,
    Certificate,
    CertificateRequest,
    Group,
    Key,
    LineagePiece,
    Link,
    PieceRequest,
    Sid,
    Sum,
)

WINDOW = 4
PATIENCE_S = 5.0
LINE_S = 30.0
"""The time limit for all links of a line."""


@dataclass(frozen=True)
class Past:
    """A session this node was a member of: enough to check its certificate and to detect equivocation.

    `ballot`: how the session counted votes, if it could make a strong base.
    """

    group: Group
    base: Base
    seen: Mapping[Key, Sum | ReleaseHead]
    ballot: Ballot | None = None

    @property
    def members(self) -> tuple[Key, ...]:
        """Node keys in key order."""
        return tuple(sorted(ready.key for ready in self.group.readys))


def check_votes(past: Past, signers: Iterable[Key]) -> None:
    """Raises RemoteProtocolError unless these votes are a quorum, if the session needs one."""
    if past.ballot is not None and not past.ballot.is_quorum(signers):
        raise RemoteProtocolError("a certificate without a quorum of the electors")


def check_certificate(certificate: Certificate, members: tuple[Key, ...], dimension: int) -> None:
    """Raises RemoteProtocolError unless it holds one signed SUM header of each member, over all members."""
    if tuple(header.sender for header in certificate.sums) != members:
        raise RemoteProtocolError("a certificate with other senders than its session")
    contributors = signing.contributors_hash(members)
    for header in certificate.sums:
        if header.sid != certificate.sid or header.contributors != contributors:
            raise RemoteProtocolError("a certificate with a SUM of another session or group")
        if len(header.pieces) != piece_count(dimension):
            raise RemoteProtocolError("a certificate over vectors of another length")
        signing.verify(header, header.sender)


Fetched = Certificate | Sum | BasePiece | LineagePiece | ResultCertificate | TotalPiece
"""The answers to a request."""


_Order = Iterator[tuple[bytes, bytes, int]]


class _Fetch:
    """What all fetches share: requests in flight, progress and its deadline."""

    def __init__(self, settings: Settings, source: Key, wanted: _Order, size_bytes: int) -> None:
        """`size_bytes`: what all answers hold together."""
        self.source = source
        self.failed = False
        self.deadline: float | None = None
        self._key = settings.key
        self._wanted = wanted
        self._all_s = transfer_s(size_bytes, settings.timeouts.session.least_rate)
        self._ends_at: float | None = None
        """When the time is over in which all answers must have come; None: they are not slow."""

    def _waits(self, now: float) -> None:
        """Wait for the next answer; if they are slow, until the time for all of them is over."""
        self.deadline = now + PATIENCE_S if self._ends_at is None else self._ends_at

    def arriving(self, now: float) -> None:
        """An answer is on its way, and slow: from the first one on, all have a common time."""
        if self.deadline is not None and self._ends_at is None:
            self.deadline = self._ends_at = now + PATIENCE_S + self._all_s

    def _ask(self, count: int) -> list[Action]:
        requests = []
        for name, of, index in islice(self._wanted, count):
            requests.append(PieceRequest(name, of, index, self._key.public))
        return [Send(self.source, tuple(requests))] if requests else []

    def tick(self, now: float) -> None:
        """Give up if no piece came before the deadline."""
        if self.deadline is not None and now >= self.deadline:
            self.failed = True
            self.deadline = None


class _SessionFetch(_Fetch):
    """A fetch of a session's result: its certificate first, then the pieces it names, in `order`."""

    def __init__(
        self, past: Past, sid: Sid, source: Key, settings: Settings, order: _Order, size_bytes: int
    ) -> None:
        super().__init__(settings, source, order, size_bytes)
        self._past = past
        self._sid = sid

    def start(self, now: float) -> list[Action]:
        """Ask for the certificate."""
        self.deadline = now + PATIENCE_S
        return [Send(self.source, (CertificateRequest(self._sid, self._key.public),))]


class CertificateFetch(_SessionFetch):
    """Fetch the certificate of an additive session this node was in, verify it, and add up its sums."""

    def __init__(self, past: Past, sid: Sid, source: Key, settings: Settings) -> None:
        dimension = settings.aggregation.summed(past.base.generation)
        order = ((sid, member, index) for member in past.members for index in range(piece_count(dimension)))
        super().__init__(past, sid, source, settings, order, WORD_BYTES * dimension * len(past.members))
        self._dimension = dimension
        self._total = Total(settings.aggregation.shares.for_group(len(past.members)), dimension, past.members)
        self._certificate: Certificate | None = None

    def receive(self, message: Fetched, now: float) -> list[Action]:
        """Process the headers, then the pieces; ends with Healed.

        Raises RemoteProtocolError for an answer that is invalid or was not asked for.
        """
        match message:
            case Certificate():
                return self._headers(message, now)
            case Sum():
                return self._piece(message, now)
            case _:
                raise RemoteProtocolError(f"a {type(message).__name__} that was not asked for")

    def _headers(self, certificate: Certificate, now: float) -> list[Action]:
        if certificate.sid != self._sid or self._certificate is not None:
            raise RemoteProtocolError("a certificate that was not asked for")
        check_certificate(certificate, self._past.members, self._dimension)
        self._certificate = certificate
        self._waits(now)
        evidence: list[Action] = [
            caught(self._past.seen[header.sender], header)
            for header in certificate.sums
            if self._past.seen.get(header.sender, header) != header
        ]
        return [*evidence, *self._ask(WINDOW)]

    def _piece(self, message: Sum, now: float) -> list[Action]:
        if self._certificate is None or message.header not in self._certificate.sums:
            raise RemoteProtocolError("a sum that the certificate does not hold")
        check_piece(message, self._dimension)
        self._total.add(message.sender, message.index, message.payload)
        self._waits(now)
        actions: list[Action] = [Keep((message,)), *self._ask(1)]
        if not self._total.missing():
            self.deadline = None
            result = self._total.result()
            past = self._past
            healed = Healed(past.group, result, past.members, self._certificate, self.source)
            actions.append(healed)
        return actions


class ResultFetch(_SessionFetch):
    """Fetch and verify the certificate of a masked session this node was in, then unmask its total."""

    def __init__(
        self,
        past: Past,
        sid: Sid,
        source: Key,
        settings: Settings,
        scheme: Scheme,
        known: ResultCertificate | None = None,
    ) -> None:
        """`known`: the certificate, if this node has it already."""
        order = ((sid, NOBODY, index) for index in range(scheme.layout.chunks))
        super().__init__(past, sid, source, settings, order, scheme.layout.vector_bytes)
        self._scheme = scheme
        self._shelf = settings.shelf
        self._known = known
        self._certificate: ResultCertificate | None = None
        self._totals: Totals | None = None

    def start(self, now: float) -> list[Action]:
        """Ask for the certificate, or, if it is known, for the first chunks."""
        return super().start(now) if self._known is None else self._take_certificate(self._known, now)

    def receive(self, message: Fetched, now: float) -> list[Action]:
        """Process the certificate, then the chunks; ends with Healed, or `failed` if the count is wrong.

        Raises RemoteProtocolError for an answer that is invalid or was not asked for.
        """
        match message:
            case ResultCertificate() if self._certificate is None and message.sid == self._sid:
                return self._take_certificate(message, now)
            case TotalPiece() if self._certificate is not None and message.sid == self._sid:
                return self._piece(message, self._certificate, now)
            case _:
                raise RemoteProtocolError(f"a {type(message).__name__} that was not asked for")

    def _take_certificate(self, certificate: ResultCertificate, now: float) -> list[Action]:
        check_result(certificate, self._past.group, self._scheme)
        check_votes(self._past, (head.sender for head in certificate.releases))
        self._certificate = certificate
        layout = self._scheme.layout
        shelf = self._shelf(layout.vector_bytes)
        self._totals = Totals(self._sid, certificate.included, layout, certificate.digests, shelf)
        self._waits(now)
        return self._ask(WINDOW)

    def _piece(self, piece: TotalPiece, certificate: ResultCertificate, now: float) -> list[Action]:
        totals = self._totals
        if totals is None or piece.index not in totals.missing:
            raise RemoteProtocolError(f"piece {piece.index} of a total that was not asked for")
        totals.take(piece.index, piece.payload, bulk_digest(piece.payload))
        self._waits(now)
        return [Keep((piece,)), *(self._ask(1) if totals.missing else self._finish(totals, certificate))]

    def _finish(self, totals: Totals, certificate: ResultCertificate) -> list[Action]:
        self.deadline = None
        dimension, encoding = self._scheme.layout.dimension, self._scheme.encoding
        result = result_of(totals.chunks(), dimension, certificate, encoding)
        if result is None:  # the session has no result for any member: a vote in it is free
            self.failed = True
            return [Unbind(self._sid)]
        contributors = members_in(certificate.included, self._past.members)
        past = self._past
        return [Healed(past.group, result, contributors, certificate, self.source)]


Verifier = Callable[[tuple[Link, ...]], tuple[Line, tuple[Key, ...]] | None]
"""Returns the line that these links form, and the peers trusted for it; None: not acceptable."""


class BaseFetch(_Fetch):
    """Fetch the line of a base and have `verify` check it; then fetch its pieces and check their digest."""

    def __init__(self, base: Base, source: Key, settings: Settings, verify: Verifier) -> None:
        dimension = settings.aggregation.dimension
        order = ((base.digest, b"", index) for index in range(piece_count(dimension)))
        super().__init__(settings, source, order, WORD_BYTES * dimension)
        self.base = base
        self._settings = settings
        self._verify = verify
        self._links: list[Link] = []
        self._line_until = 0.0
        self._line_of_base: tuple[Line, tuple[Key, ...]] | None = None
        self._missing = set(range(piece_count(dimension)))
        self._vector = np.empty(dimension, dtype="<f4")

    def start(self, now: float) -> list[Action]:
        """Ask for the first link."""
        self.deadline, self._line_until = now + PATIENCE_S, now + LINE_S
        return self._ask_link(0)

    def _ask_link(self, index: int) -> list[Action]:
        request = PieceRequest(self.base.digest, LINEAGE, index, self._key.public)
        return [Send(self.source, (request,))]

    def receive(self, message: Fetched, now: float) -> list[Action]:
        """Process a link or a piece; ends with Adopted, or `failed` if the line or the digest is wrong.

        Raises RemoteProtocolError for an answer that is invalid or was not asked for.
        """
        match message:
            case LineagePiece(digest=self.base.digest) if self._line_of_base is None:
                return self._take_link(message, now)
            case BasePiece(digest=self.base.digest) if self._line_of_base is not None:
                return self._take_piece(message, self._line_of_base, now)
            case _:
                raise RemoteProtocolError("a reply that was not asked for")

    def _take_link(self, message: LineagePiece, now: float) -> list[Action]:
        if message.index != len(self._links) or message.count > MAX_LINKS + 1:
            raise RemoteProtocolError(f"link {message.index} of {message.count} was not asked for")
        for link in message.link:
            check_link(link, self._settings)
            self._links.append(link)
        self.deadline = min(now + PATIENCE_S, self._line_until)
        if message.link and len(self._links) < message.count:
            return self._ask_link(len(self._links))
        self._line_of_base = self._verify(tuple(self._links))
        if self._line_of_base is None:
            self.deadline, self.failed = None, True
            return []
        self._waits(now)
        return self._ask(WINDOW)

    def _take_piece(
        self, message: BasePiece, supported: tuple[Line, tuple[Key, ...]], now: float
    ) -> list[Action]:
        if message.index not in self._missing:
            raise RemoteProtocolError(
                f"piece {message.index} of a base was not asked for, or is here already"
            )
        if len(message.payload) != piece_bytes(len(self._vector), message.index):
            raise RemoteProtocolError(f"piece {message.index} of a base has {len(message.payload)} bytes")
        self._vector[piece(len(self._vector), message.index)] = np.frombuffer(message.payload, dtype="<f4")
        self._missing.discard(message.index)
        self._waits(now)
        return self._ask(1) if self._missing else self._finish(*supported)

    def _finish(self, line: Line, trusted: tuple[Key, ...]) -> list[Action]:
        self.deadline = None
        digest = base_digest(self._settings.task.parameters_hash, self.base.generation, self._vector)
        if not hmac.compare_digest(digest, self.base.digest) or not np.isfinite(self._vector).all():
            self.failed = True
            return []
        return [Adopted(self.base, self._vector, trusted, line)]


def check_link(link: Link, settings: Settings) -> None:
    """RemoteProtocolError unless the link is a session of this swarm whose members signed its result."""
    group, members = link.group, members_of(link)
    if len(link.result) + len(link.sums) != 1 or not members:
        raise RemoteProtocolError("a link without its one certificate")
    signing.verify(group, group.coordinator)
    check_group(group, group.readys[0])
    check_step(group)
    if group.readys[0].announce.swarm != settings.task.swarm:
        raise RemoteProtocolError("a link of another swarm")
    certificate, generation = link.certificate, group.base.generation
    scheme = settings.aggregation.scheme(len(members), generation)
    if certificate.sid != signing.session_id(group):
        raise RemoteProtocolError("a link with the certificate of another session")
    match certificate:
        case Certificate() if scheme is None:
            check_certificate(certificate, members, settings.aggregation.summed(generation))
        case ResultCertificate() if scheme is not None:
            check_result(certificate, group, scheme)
        case _:
            raise RemoteProtocolError("a link with a certificate of the other kind")
