"""Answers to requests for certificates, partial sums and bases, from what is stored."""

from __future__ import annotations

from node.state import State
from protocol.masked_messages import ResultCertificate, TotalPiece
from protocol.messages import BasePiece, CertificateRequest, Message, PieceRequest, Sid, Sum
from protocol.names import NOBODY


def answer(state: State, request: CertificateRequest | PieceRequest) -> Message | None:
    """What was asked for; None if it is not (or no longer) here."""
    match request:
        case CertificateRequest(sid=sid):
            kept = state.sessions.get(sid)
            return kept.certificate if kept else None
        case PieceRequest(of=b"", sid=digest, index=index):
            return _base_piece(state, digest, index)
        case PieceRequest(sid=sid, of=of, index=index):
            return _sum_piece(state, sid, of, index)


def _base_piece(state: State, digest: bytes, index: int) -> BasePiece | None:
    payload = state.base_piece(digest, index)
    return None if payload is None else BasePiece(digest, index, payload)


def _sum_piece(state: State, sid: Sid, of: bytes, index: int) -> Sum | TotalPiece | None:
    kept = state.sessions.get(sid)
    payload = state.kept_part(sid, of, index)
    if payload is not None and of == NOBODY:
        return TotalPiece(sid, index, payload)  # its digest tells whether it is the right one
    if kept is None or payload is None or isinstance(kept.certificate, ResultCertificate):
        return None
    header = next((header for header in kept.certificate.sums if header.sender == of), None)
    if header is None:
        return None
    return Sum(sid, of, header.contributors, header.pieces, header.signature, index, payload)
