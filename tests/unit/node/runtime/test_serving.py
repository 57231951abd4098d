"""Serving is bounded: one answer at a time to each peer, loaded when there is room."""

import asyncio
import gc
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from node.net.traffic import Counts
from node.runtime.serving import AT_ONCE, MAX_SERVED_BYTES, MAX_WAITING, Serving
from protocol.actions import Serve
from protocol.vectors.pieces import PIECE_BYTES, PIECE_WORDS
from protocol.wire.ids import NOBODY
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.masked_messages import TotalPiece
from protocol.wire.messages import BasePiece, CertificateRequest, PieceRequest
from tests.unit.node.links import End, accepting, far_side, node_state, started

SID = b"s" * 32
LARGE = "model.args.sizes=[64,4096,64,10]"  # three pieces
SAMPLE_BYTES = 64


def key(number: int) -> bytes:
    return bytes([number]) * 32


def piece_of(index: int, sender: bytes, sid: bytes = SID, of: bytes = NOBODY) -> PieceRequest:
    return PieceRequest(sid, of, index, sender)


@asynccontextmanager
async def silent_peer():
    """Runs a peer that accepts connections, and reads no body; yields its address, and what has begun."""
    begun, over = asyncio.Queue(), asyncio.Event()

    async def take(request):
        begun.put_nowait(request)
        await over.wait()
        request.transport.abort()
        return web.Response()

    async with far_side(accepting(), web.post("/v1/bulk", take)) as endpoint:
        try:
            yield endpoint, begun
        finally:
            over.set()


@asynccontextmanager
async def running(serving):
    task = asyncio.create_task(serving.run())
    await asyncio.sleep(0)
    try:
        yield serving
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(node, to, count, number, *of):
    """Asks for so many pieces."""
    for index in range(count):
        await node.peer._perform(Serve(to, piece_of(index, key(number), *of)))


def bytes_of_pieces() -> int:
    """Returns how many bytes all pieces of a base that are alive hold, with what they are views of.

    Those of a few bytes are samples, which other tests keep.
    """
    gc.collect()
    held = {}
    for message in gc.get_objects():
        if type(message) is BasePiece and len(message.payload) > SAMPLE_BYTES:
            payload = message.payload
            whole = payload.obj if isinstance(payload, memoryview) else payload
            while getattr(whole, "base", None) is not None:
                whole = whole.base
            held[id(whole)] = memoryview(whole).nbytes
    return sum(held.values())


async def test_a_piece_of_a_base_holds_no_more_than_itself(alone):
    node = alone("none", LARGE)
    assert node.state.dimension > 2 * PIECE_WORDS
    vector = node.state.base_vector + 1
    node.state.adopt(node.base(1, vector), vector, 1, None, ())
    async with (
        started(node.peer.transport),
        running(node.peer._serving),
        silent_peer() as (silent, begun),
        node_state(End()) as (reader,),
    ):
        before = node.state.previous.digest
        await ask(node, silent, 1, 1, before, b"")
        await begun.get()
        assert bytes_of_pieces() == PIECE_BYTES
        await ask(node, reader.endpoint, 3, 2, before, b"")
        assert [piece.index for piece in await reader.take(3)] == [0, 1, 2]


class Wire:
    """Records answers that were sent; the test decides when each is taken."""

    def __init__(self):
        self.loaded, self.handed = [], []
        self.counts = Counts()
        self.serving = Serving(self._load, self._hand, self.counts)
        self._taken = {}
        self.most = 0

    def _load(self, request):
        self.loaded.append(request)
        if isinstance(request, PieceRequest) and request.index == 99:
            return None
        return TotalPiece(request.sid, 0, b"x")

    async def _hand(self, to, message):
        self.handed.append(to)
        self._taken[to] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, sum(not one.done() for one in self._taken.values()))
        return await self._taken[to]

    def take(self, to, took=True):
        self._taken[to].set_result(took)

    async def handing(self, count):
        """Waits until this many answers were sent."""
        async with asyncio.timeout(10):
            while len(self.handed) < count:  # noqa: ASYNC110 - answers come through threads
                await asyncio.sleep(0)

    async def quiet(self):
        """Waits until no task waits for anything."""
        async with asyncio.timeout(10):
            while self.serving._waiting:  # noqa: ASYNC110
                await asyncio.sleep(0)


@pytest.fixture
async def wire():
    made = Wire()
    async with running(made.serving):
        yield made
    assert not made.serving._waiting


async def test_a_request_is_answered_once_also_if_it_is_said_again_meanwhile(wire):
    request = piece_of(0, key(1))
    for _ in range(3):
        wire.serving.ask("a", request)
    await wire.handing(1)
    wire.serving.ask("a", PieceRequest(SID, NOBODY, 0, key(1), b"signed anew"))
    wire.take("a")
    await wire.quiet()
    assert (wire.handed, wire.loaded) == (["a"], [request])
    assert wire.counts.dropped == {"asked for twice, and not answered yet": 3}
    wire.serving.ask("a", request)
    await wire.handing(2)  # it was answered: who asks again lacks it
    wire.take("a")
    await wire.quiet()


async def test_one_answer_at_a_time_is_loaded_for_a_peer_and_so_many_requests_wait(wire):
    wire.serving.ask("a", CertificateRequest(SID, key(1)))
    for index in range(MAX_WAITING + 5):
        wire.serving.ask("a", piece_of(index, key(1)))
    await wire.handing(1)
    assert len(wire.loaded) == 1
    assert wire.counts.dropped == {"more requests of a peer than wait": 6}
    for number in range(1, MAX_WAITING + 1):
        await wire.handing(number)
        assert len(wire.loaded) == number
        wire.take("a")
    await wire.quiet()
    assert [request.index for request in wire.loaded[1:]] == list(range(MAX_WAITING - 1))


async def test_a_peer_that_took_no_answer_is_let_go_with_all_that_it_asked_for(wire):
    for index in range(4):
        wire.serving.ask("a", piece_of(index, key(1)))
    await wire.handing(1)
    wire.take("a", took=False)
    await wire.quiet()
    assert (len(wire.loaded), wire.counts.dropped) == (1, {"asked for by a peer that took no answer": 3})


async def test_what_is_not_here_is_passed_over(wire):
    for index in (99, 1):
        wire.serving.ask("a", piece_of(index, key(1)))
    await wire.handing(1)
    wire.take("a")
    await wire.quiet()
    assert ([request.index for request in wire.loaded], wire.handed) == ([99, 1], ["a"])
    assert not wire.counts.dropped


async def test_two_peers_at_one_address_wait_for_each_other_s_answers_no_more_than_others(wire):
    """A peer that announces another's address must not use up the other's answers."""
    for index in range(MAX_WAITING):
        wire.serving.ask("a", piece_of(index, key(1)))
    wire.serving.ask("a", piece_of(0, key(2)))
    assert not wire.counts.dropped
    assert set(wire.serving._waiting) == {key(1), key(2)}


async def test_so_many_answers_are_under_way_at_once_and_the_rest_is_not_loaded(wire):
    assert AT_ONCE * MAX_FRAME_BYTES <= MAX_SERVED_BYTES
    peers = [str(number) for number in range(AT_ONCE + 10)]
    for number, peer in enumerate(peers):
        wire.serving.ask(peer, piece_of(0, key(number)))
    await wire.handing(AT_ONCE)
    assert len(wire.loaded) == AT_ONCE
    for number in range(10):
        wire.take(wire.handed[number])
        await wire.handing(AT_ONCE + number + 1)
    assert sorted(wire.handed) == sorted(peers)
    assert wire.most == AT_ONCE
    for peer in wire.handed[10:]:
        wire.take(peer, took=False)
    await wire.quiet()


async def test_what_was_asked_for_before_is_answered_when_serving_begins():
    wire = Wire()
    wire.serving.ask("a", piece_of(0, key(1)))
    async with running(wire.serving):
        await wire.handing(1)
    assert not wire.serving._waiting
