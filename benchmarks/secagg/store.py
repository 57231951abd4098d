"""What a peer of the benchmark keeps of its last sessions, so that a straggler can catch up."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from node.storage.file_shelf import FileShelves
from node.storage.piece_file import PieceFile
from protocol.wire.ids import NOBODY
from protocol.wire.masked_messages import ResultCertificate, TotalPiece
from protocol.wire.messages import Certificate, CertificateRequest, Message, PieceRequest, Sid, Sum

_SESSIONS = 2


class Store:
    """Totals of masked sessions, in files, and certificates, in memory. It drops partial sums."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.shelves = FileShelves(folder)
        """Keeps what a sum needs until it is over."""
        self._files: dict[Sid, PieceFile] = {}
        self._certificates: dict[Sid, Certificate | ResultCertificate] = {}

    def keep(self, parts: Iterable[Sum | TotalPiece]) -> None:
        """Write the totals among the parts. The last part of an index is valid."""
        totals = (part for part in parts if isinstance(part, TotalPiece))
        for sid, of_session in groupby(totals, lambda part: part.sid):
            self._files.setdefault(sid, PieceFile(self._path(sid))).add(of_session)

    def certify(self, sid: Sid, certificate: Certificate | ResultCertificate) -> None:
        """Keep the certificate of a session that ended."""
        self._certificates[sid] = certificate

    def prune(self) -> None:
        """Delete all but the last two sessions. Call it between rounds: then no round pays for it."""
        for old in list(self._certificates)[:-_SESSIONS]:
            del self._certificates[old]
            self._files.pop(old, None)
            self._path(old).unlink(missing_ok=True)

    def _path(self, sid: Sid) -> Path:
        return self._folder / sid.hex()

    def answer(self, request: CertificateRequest | PieceRequest) -> Message | None:
        """Return the requested message; None if it is not kept."""
        if isinstance(request, CertificateRequest):
            return self._certificates.get(request.sid)
        payload = self._files[request.sid].get(NOBODY, request.index) if request.sid in self._files else None
        if request.of != NOBODY or payload is None:
            return None
        return TotalPiece(request.sid, request.index, payload)
