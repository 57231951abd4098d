"""Answers to requests for certificates, partial sums and bases, from what is stored.

What is asked for is thousands of times as long as the request. So an answer is loaded only when its peer has
taken the one before and there is room for it: until then the request waits, and of those only so many do. A
peer that takes nothing more is let go with all that it asked for; it may ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from node.net.traffic import Counts
from node.storage.state import State
from protocol.wire import ids
from protocol.wire.ids import NOBODY, Key
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.masked_messages import ResultCertificate, TotalPiece
from protocol.wire.messages import BasePiece, CertificateRequest, Message, PieceRequest, Request, Sid, Sum

MAX_WAITING = 16
"""How many requests of one peer wait, the one that is being answered among them."""
MAX_SERVED_BYTES = 32 * 1024 * 1024
AT_ONCE = MAX_SERVED_BYTES // MAX_FRAME_BYTES
"""How many answers are under way at once, each to another peer."""

Load = Callable[[Request], Message | None]
Hand = Callable[[str, Message], Awaitable[bool]]
"""Sends a message to an endpoint; whether it went."""


class Serving:
    """Who has asked for what, and what is under way to whom: one task a peer, while it waits for something.

    `load` reads from the disk; `hand` returns when a message has gone or never will.
    """

    def __init__(self, load: Load, hand: Hand, counts: Counts) -> None:
        self._load = load
        self._hand = hand
        self._counts = counts
        self._waiting: dict[Key, dict[tuple[bytes, ...], tuple[str, Request]]] = {}
        """By peer and by what is asked for: where it goes. The first one of a peer is being answered."""
        self._room = asyncio.Semaphore(AT_ONCE)
        self._loading = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None

    def ask(self, to: str, request: Request) -> None:
        """`to` asks for this. What it has asked for already, and what is too much, is counted and let be."""
        peer, what = request.sender, _what(request)
        waiting = self._waiting.setdefault(peer, {})
        if what in waiting:
            self._counts.drop("asked for twice, and not answered yet")
        elif len(waiting) >= MAX_WAITING:
            self._counts.drop("more requests of a peer than wait")
        else:
            waiting[what] = (to, request)
            if len(waiting) == 1 and self._tasks is not None:
                self._tasks.create_task(self._answer(peer), name=f"serving {to}")

    async def run(self) -> None:
        """Answer until this is cancelled; what was asked for before is not forgotten."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for peer in self._waiting:
                    self._tasks.create_task(self._answer(peer))
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            self._waiting.clear()

    async def _answer(self, peer: Key) -> None:
        """All that a peer waits for, one after the other, as long as it takes what it is sent."""
        waiting, takes = self._waiting[peer], True
        while waiting and takes:
            what, (to, request) = next(iter(waiting.items()))
            async with self._room:
                takes = await self._handed(to, request)
            del waiting[what]
        for _ in waiting:
            self._counts.drop("asked for by a peer that took no answer")
        del self._waiting[peer]

    async def _handed(self, to: str, request: Request) -> bool:
        """Whether this peer took what it asked for, or there is no such thing; nothing is held afterwards."""
        async with self._loading:  # a disk has one head, and threads are few
            message = await asyncio.to_thread(self._loaded, request)
        return message is None or await self._hand(to, message)

    def _loaded(self, request: Request) -> Message | None:
        """What was asked for, and no more: a view of a piece would hold the whole vector."""
        message = self._load(request)
        if isinstance(message, BasePiece | Sum | TotalPiece):
            return replace(message, payload=bytes(message.payload))
        return message


def _what(request: Request) -> tuple[bytes, ...]:
    """What is asked for, however often and in whatever words."""
    if isinstance(request, CertificateRequest):
        return (request.sid,)
    return (request.sid, request.of, request.index.to_bytes(4, "big"))


def answer(state: State, request: CertificateRequest | PieceRequest) -> Message | None:
    """What was asked for; None if it is not (or no longer) here."""
    match request:
        case CertificateRequest(sid=sid):
            kept = state.sessions.get(sid)
            return kept.certificate if kept else None
        case PieceRequest(of=ids.LINEAGE, sid=digest, index=index):
            return state.link_to(digest, index)
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
