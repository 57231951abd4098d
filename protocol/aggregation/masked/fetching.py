"""Fetching from other members: chunks of a total, and the certificate of a session that they finished."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from protocol.actions import Action, Send
from protocol.aggregation.masked.thresholds import Scheme
from protocol.aggregation.masked.unmasking import check_result
from protocol.aggregation.participant import Participant
from protocol.aggregation.transfer import transfer_s
from protocol.vectors.pieces import PIECE_BYTES
from protocol.wire.ids import NOBODY, Key
from protocol.wire.masked_messages import ResultCertificate
from protocol.wire.messages import CertificateRequest, PieceRequest

WINDOW = 4
PATIENCE_S = 2.0


class Pull:
    """Asks `sources` in turn, each for as long as it answers. `missing` are the wanted chunks."""

    def __init__(self, participant: Participant, missing: Iterable[int], sources: Iterable[Key]) -> None:
        self._participant = participant
        self._missing = list(missing)
        self._sources = [key for key in sources if key != participant.me]
        self._asked: set[int] = set()
        self._is_on_way = False
        """Whether the answers to the last requests have begun to come."""
        self.deadline: float | None = None

    def ask(self, now: float) -> list[Action]:
        """Request chunks that are neither here nor in flight."""
        wanted = [index for index in self._missing if index not in self._asked]
        wanted = wanted[: WINDOW - len(self._asked)]
        self._is_on_way = False
        self.deadline = now + PATIENCE_S if self._missing and self._sources else None
        if not wanted or not self._sources:
            return []
        self._asked.update(wanted)
        sid, me = self._participant.sid, self._participant.me
        return [Send(self._sources[0], tuple(PieceRequest(sid, NOBODY, index, me) for index in wanted))]

    def arriving(self, key: Key) -> None:
        """Bulk of a member is on its way: the one that was asked gets the time of its answers."""
        if self.deadline is not None and not self._is_on_way and key == self._sources[0]:
            self._is_on_way = True
            self.deadline += transfer_s(WINDOW * PIECE_BYTES, self._participant.timeouts.least_rate)

    def left(self, missing: Collection[int], now: float) -> list[Action]:
        """Continue with only these chunks missing: others came, on request or otherwise."""
        came = [index for index in self._missing if index not in missing]
        if not came:
            return []
        self._missing = [index for index in self._missing if index in missing]
        self._asked.difference_update(came)
        return self.ask(now)

    def tick(self, now: float) -> list[Action]:
        """Turn to the next source if the current one does not answer."""
        if self.deadline is None or now < self.deadline:
            return []
        self._sources.append(self._sources.pop(0))
        self._asked.clear()
        return self.ask(now)


class Result:
    """A session's result, as far as known. `certificate`: opened here, or sent by a member that finished."""

    def __init__(self, participant: Participant, scheme: Scheme) -> None:
        self._participant = participant
        self._scheme = scheme
        self._pull: Pull | None = None
        self.asked: set[Key] = set()
        self.certificate: ResultCertificate | None = None

    @property
    def expects(self) -> bool:
        """Whether this member expects replies to its requests."""
        return self._pull is not None or bool(self.asked)

    @property
    def deadline(self) -> float:
        """When to ask another source; infinite if no pull is running."""
        until = self._pull.deadline if self._pull is not None else None
        return math.inf if until is None else until

    def ask(self, key: Key) -> list[Action]:
        """Ask a member that has finished for the certificate, once."""
        if key in self.asked or self.certificate is not None:
            return []
        self.asked.add(key)
        return [Send(key, (CertificateRequest(self._participant.sid, self._participant.me),))]

    def arriving(self, key: Key) -> None:
        """Bulk of a member is on its way."""
        if self._pull is not None:
            self._pull.arriving(key)

    def opened(self, certificate: ResultCertificate) -> None:
        """This member opened the secrets itself."""
        self.certificate = certificate

    def take(self, certificate: ResultCertificate) -> None:
        """Process another member's certificate; RemoteProtocolError unless it proves a result."""
        if self.certificate is None:
            check_result(certificate, self._participant.group, self._scheme)
            self.certificate = certificate

    def pull(self, missing: Iterable[int], sources: Iterable[Key], now: float) -> list[Action]:
        """Ask for these chunks of the total."""
        self._pull = Pull(self._participant, missing, [*sorted(self.asked), *sources])
        return self._pull.ask(now)

    def left(self, missing: Collection[int], now: float) -> list[Action]:
        """Continue with only these chunks missing."""
        return self._pull.left(missing, now) if self._pull is not None else []

    def tick(self, now: float) -> list[Action]:
        """Turn to the next source if the current one does not answer."""
        return self._pull.tick(now) if self._pull is not None else []
