"""What a peer of the benchmark keeps of its last sessions, in files, so that a straggler can catch up."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from protocol.masked_messages import ResultCertificate, TotalPiece
from protocol.messages import Certificate, CertificateRequest, Message, PieceRequest, Sid, Sum
from protocol.names import NOBODY

_SESSIONS = 2


class Store:
    """Certificates, and the totals of masked sessions. Partial sums of additive ones are read and dropped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sids: list[Sid] = []
        self._certificates: dict[Sid, Certificate | ResultCertificate] = {}

    def keep(self, parts: Iterable[Sum | TotalPiece]) -> None:
        """Write what comes; a later part takes the place of an earlier one."""
        for part in parts:
            if isinstance(part, TotalPiece):
                self._begin(part.sid)
                self._file(part.sid, part.index).write_bytes(part.payload)

    def certify(self, sid: Sid, certificate: Certificate | ResultCertificate) -> None:
        """A session ended."""
        self._begin(sid)
        self._certificates[sid] = certificate

    def _begin(self, sid: Sid) -> None:
        if sid not in self._sids:
            self._folder_of(sid).mkdir(parents=True)
            self._sids.append(sid)

    def prune(self) -> None:
        """Forget all but the last sessions; between rounds, so that no round is charged for it."""
        for old in self._sids[:-_SESSIONS]:
            shutil.rmtree(self._folder_of(old))
            self._certificates.pop(old, None)
        self._sids = self._sids[-_SESSIONS:]

    def _folder_of(self, sid: Sid) -> Path:
        return self._folder / sid.hex()

    def _file(self, sid: Sid, index: int) -> Path:
        return self._folder_of(sid) / str(index)

    def answer(self, request: CertificateRequest | PieceRequest) -> Message | None:
        """What was asked for; None if it is not here."""
        if isinstance(request, CertificateRequest):
            return self._certificates.get(request.sid)
        file = self._file(request.sid, request.index)
        if request.of != NOBODY or not file.exists():
            return None
        return TotalPiece(request.sid, request.index, file.read_bytes())
