"""Answers requests for certificates, partial sums and bases from the stored state.

An answer is thousands of times as long as its request. So the node loads an answer only when the peer has
taken the previous one and there is room; until then the request waits, in a bounded queue. If a peer stops
taking answers, the node drops all its requests; the peer may ask again.
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
"""How many requests of one peer may wait, including the one being answered."""
MAX_SERVED_BYTES = 32 * 1024 * 1024
AT_ONCE = MAX_SERVED_BYTES // MAX_FRAME_BYTES
"""How many answers may be under way at once, each to another peer."""

Load = Callable[[Request], Message | None]
Hand = Callable[[str, Message], Awaitable[bool]]
"""Sends a message to an endpoint and returns whether it was sent."""


class Serving:
    """The waiting requests of all peers, and one task for each peer that waits for an answer.

    `load` reads from disk; `hand` returns when a message was sent or never will be.
    """

    def __init__(self, load: Load, hand: Hand, counts: Counts) -> None:
        self._load = load
        self._hand = hand
        self._counts = counts
        self._waiting: dict[Key, dict[tuple[bytes, ...], tuple[str, Request]]] = {}
        """By peer and requested item: the endpoint and the request. A peer's first one is being answered."""
        self._room = asyncio.Semaphore(AT_ONCE)
        self._loading = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None

    def ask(self, to: str, request: Request) -> None:
        """Queues a request from `to`. Counts and drops a repeated request and one beyond the bound."""
        peer = request.sender
        what: tuple[bytes, ...] = (request.sid,)  # equal for repeated requests
        if isinstance(request, PieceRequest):
            what = (*what, request.of, request.index.to_bytes(4, "big"))
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
        """Answers until it is cancelled, starting with requests that came earlier."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for peer in self._waiting:
                    self._tasks.create_task(self._answer(peer))
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            self._waiting.clear()

    async def _answer(self, peer: Key) -> None:
        """Answers a peer's requests one after another, as long as it takes the answers."""
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
        """Answers one request. Returns False if the peer did not take the answer; keeps nothing in memory."""
        async with self._loading:  # one at a time: a disk has one head, and threads are few
            message = await asyncio.to_thread(self._loaded, request)
        return message is None or await self._hand(to, message)

    def _loaded(self, request: Request) -> Message | None:
        """Loads the answer; copies its payload, because a view of a piece would keep the whole vector."""
        message = self._load(request)
        if isinstance(message, BasePiece | Sum | TotalPiece):
            return replace(message, payload=bytes(message.payload))
        return message


def answer(state: State, request: CertificateRequest | PieceRequest) -> Message | None:
    """Returns the requested message; None if it is not stored (any more)."""
    match request:
        case CertificateRequest(sid=sid):
            kept = state.sessions.get(sid)
            return kept.certificate if kept else None
        case PieceRequest(of=ids.LINEAGE, sid=digest, index=index):
            return state.link_to(digest, index)
        case PieceRequest(of=b"", sid=digest, index=index):
            payload = state.base_piece(digest, index)
            return None if payload is None else BasePiece(digest, index, payload)
        case PieceRequest(sid=sid, of=of, index=index):
            return _sum_piece(state, sid, of, index)


def _sum_piece(state: State, sid: Sid, of: bytes, index: int) -> Sum | TotalPiece | None:
    kept = state.sessions.get(sid)
    payload = state.kept_part(sid, of, index)
    if payload is not None and of == NOBODY:
        return TotalPiece(sid, index, payload)  # the total's digest shows whether it is the right one
    if kept is None or payload is None or isinstance(kept.certificate, ResultCertificate):
        return None
    header = next((header for header in kept.certificate.sums if header.sender == of), None)
    if header is None:
        return None
    return Sum(sid, of, header.contributors, header.pieces, header.signature, index, payload)
