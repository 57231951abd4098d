"""Server and client nodes over the real transport on loopback, in one process; limits on training."""

import asyncio
import socket
import threading
from contextlib import asynccontextmanager, closing, suppress

import aiohttp
import numpy as np
import pytest
import torch

from mechanisms.noise.randomness import SystemWords
from node.data.dataset import load_dataset
from node.errors import UserError
from node.federation import ClientNode, ServerGone, ServerNode
from node.models import MLP
from node.net.listening import DEFAULT, endpoint_of, listen
from node.task.load import load_task
from node.training.build import build_model
from node.training.proximal import Held, ProximalTerm
from node.training.trainer import Interrupted, Trainer, read_vector
from protocol.federation import tags
from protocol.wire import codec
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.messages import Enlist, UploadPiece

# What aiohttp says of a test that posts one string of bytes.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")

RUN = b"r" * 32
SMALL, LARGE = 7, 600_000
NEVER = threading.Event()


def plus(client, number, model, stop):
    return model + client + number


def failing(client, number, model, stop):
    raise UserError("training diverged")


class Nodes:
    """A server and its client nodes as tasks of one loop."""

    def __init__(self, nodes: int, dimension: int) -> None:
        self.count, self.dimension = nodes, dimension
        self.said: list[str] = []
        self.news = asyncio.Event()
        self.listener = listen(DEFAULT)
        self.server = ServerNode(RUN, dimension, nodes, self.tell)
        self.clients: dict[int, ClientNode] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, number: int, train=plus) -> None:
        where = endpoint_of(self.listener, None)
        self.clients[number] = ClientNode(RUN, self.dimension, number, listen(DEFAULT), where, train)
        self.tasks[number] = asyncio.create_task(self.clients[number].run())

    def tell(self, line: str) -> None:
        self.said.append(line)
        self.news.set()

    async def told(self, text: str, times: int) -> None:
        """Waits until the server has reported this often."""
        while sum(text in line for line in self.said) < times:
            self.news.clear()
            await self.news.wait()

    async def serve(self, work):
        return await self.server.run(self.listener, work)

    @asynccontextmanager
    async def ending(self):
        try:
            yield self
        finally:
            for task in self.tasks.values():
                task.cancel()
            await asyncio.gather(*self.tasks.values(), return_exceptions=True)
            for listener in (self.listener, *(client._listener for client in self.clients.values())):
                listener.close()


def federation(nodes: int, dimension: int = SMALL):
    return Nodes(nodes, dimension).ending()


def zeros(dimension: int = SMALL):
    return np.zeros(dimension, np.float32)


@pytest.mark.parametrize("dimension", [SMALL, LARGE])
async def test_rounds_go_through_and_all_nodes_end_when_the_work_is_done(dimension):
    def work(gather):
        model = zeros(dimension)
        for number in (1, 2, 3):
            uploads = gather(number, model, [0, 3, 5])
            assert list(uploads) == [0, 3, 5]
            model = np.mean(list(uploads.values()), 0)
        return model

    async with federation(3, dimension) as nodes:
        for number in range(3):
            nodes.start(number)
        model = await nodes.serve(work)
        await asyncio.gather(*nodes.tasks.values())
    assert np.allclose(model, 3 * 8 / 3 + 1 + 2 + 3)
    assert sorted(line.split(":")[0] for line in nodes.said) == [f"node {n} joined" for n in range(3)]
    assert not nodes.server.transport.counts.dropped


async def test_nodes_that_end_before_their_server_does_are_not_lost():
    """On a slow machine the clients have ended before the server has closed its links."""
    async with federation(2) as nodes:
        gone: set[str] = set()
        all_gone = asyncio.Event()
        transport = nodes.server.transport
        lost, close = transport.lost, transport.close

        async def noting(endpoint, why):
            await lost(endpoint, why)
            gone.add(endpoint)
            if len(gone) == 2:
                all_gone.set()

        async def closing_late():
            await asyncio.gather(*nodes.tasks.values())
            await all_gone.wait()
            await close()

        transport.lost, transport.close = noting, closing_late
        nodes.start(0)
        nodes.start(1)
        await nodes.serve(lambda gather: gather(1, zeros(), [0, 1]))

    assert sorted(line.split(":")[0] for line in nodes.said) == ["node 0 joined", "node 1 joined"]


async def test_a_node_may_be_there_before_its_server():
    async with federation(1) as nodes:
        where = nodes.listener.getsockname()
        nodes.listener.close()
        nodes.clients[0] = ClientNode(RUN, SMALL, 0, listen(DEFAULT), f"127.0.0.1:{where[1]}", plus)
        refused = asyncio.Event()
        lost = nodes.clients[0].transport.lost

        async def noting(endpoint, why):
            await lost(endpoint, why)
            refused.set()

        nodes.clients[0].transport.lost = noting
        nodes.tasks[0] = asyncio.create_task(nodes.clients[0].run())
        await refused.wait()
        nodes.listener = listen(f"127.0.0.1:{where[1]}")
        uploads = await nodes.serve(lambda gather: gather(1, zeros(), [0]))
        await nodes.tasks[0]

    assert uploads[0].tolist() == [1] * SMALL


async def test_a_node_that_fails_raises_what_it_was_and_is_missed_from_then_on():
    """When every node is gone, the server ends."""
    async with federation(2) as nodes:
        nodes.start(0)
        nodes.start(1, failing)
        uploads = await nodes.serve(lambda gather: [gather(n, zeros(), [0, 1, 2]) for n in (1, 2)])
        with pytest.raises(UserError, match="training diverged"):
            await nodes.tasks[1]
    assert [list(sent) for sent in uploads] == [[0, 2], [0, 2]]
    assert any(line.startswith("node 1 lost: ") for line in nodes.said)
    async with federation(1) as nodes:
        nodes.start(0, failing)
        with pytest.raises(UserError, match="every client node is gone"):
            await nodes.serve(lambda gather: [gather(n, zeros(), [0]) for n in (1, 2)])


async def test_a_node_that_has_failed_does_not_miss_its_server_as_well():
    async with federation(1) as nodes:
        nodes.start(0, failing)
        node = nodes.clients[0]
        close, where = node.transport.close, endpoint_of(nodes.listener, None)

        async def closing_late():
            for _ in range(2):
                await node._shell.unreachable(where, "connection refused")
            await close()

        node.transport.close = closing_late
        await nodes.serve(lambda gather: gather(1, zeros(), [0]))
        with pytest.raises(UserError, match="training diverged"):
            await nodes.tasks[0]
        assert not node._shell.broken.done()


async def test_a_node_that_left_may_come_again():
    def work(gather):
        first = gather(1, zeros(), [0, 1])
        loop.call_soon_threadsafe(left.set)
        came.wait()
        return [first, gather(2, zeros(), [0, 1])]

    async def come_again():
        await left.wait()
        nodes.tasks[1].cancel()
        await asyncio.gather(nodes.tasks[1], return_exceptions=True)
        nodes.start(1)
        await nodes.told("node 1 joined", 2)
        came.set()

    loop, left, came = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    async with federation(2) as nodes:
        nodes.start(0)
        nodes.start(1)
        again = asyncio.create_task(come_again())
        uploads = await nodes.serve(work)
        await again

    assert [list(sent) for sent in uploads] == [[0, 1], [0, 1]]


async def test_an_order_ends_the_training_of_the_one_before():
    begun, ended, came = threading.Event(), threading.Event(), threading.Event()

    def train(client, number, model, stop):
        if number == 1:
            begun.set()
            stop.wait()
            ended.set()
            raise Interrupted
        return plus(client, number, model, stop)

    async def give_up():
        await asyncio.to_thread(begun.wait)
        shell, machine = nodes.server._shell, nodes.clients[0]._machine
        await shell.unreachable(endpoint_of(nodes.clients[0]._listener, None), "was paused")
        await nodes.clients[0]._shell.feed(machine.tick)
        await nodes.told("node 0 joined", 2)
        came.set()

    def work(gather):
        first = gather(1, zeros(), [0, 1])
        came.wait()
        return first, gather(2, zeros(), [0, 1])

    async with federation(1) as nodes:
        nodes.start(0, train)
        giving = asyncio.create_task(give_up())
        first, second = await nodes.serve(work)
        await giving

    assert (first, list(second), ended.is_set()) == ({}, [0, 1], True)


async def test_the_server_s_own_failure_ends_it_and_its_nodes():
    def work(gather):
        gather(1, zeros(), [0, 1])
        raise ZeroDivisionError

    async with federation(2) as nodes:
        nodes.start(0)
        nodes.start(1)
        with pytest.raises(ZeroDivisionError):
            await nodes.serve(work)
        for task in nodes.tasks.values():
            with pytest.raises(ServerGone, match=r"the server at .* is gone: "):
                await task


async def test_an_interrupted_server_lets_go_of_its_thread():
    def train(client, number, model, stop):
        loop.call_soon_threadsafe(serving.cancel)
        stop.wait()
        raise Interrupted

    loop, ended = asyncio.get_running_loop(), threading.Event()

    def work(gather):
        with suppress(Exception):
            gather(1, zeros(), [0])
        with suppress(Exception):
            gather(2, zeros(), [0])
        ended.set()

    async with federation(1) as nodes:
        nodes.start(0, train)
        serving = asyncio.create_task(nodes.serve(work))
        with pytest.raises(asyncio.CancelledError):
            await serving

    assert ended.is_set()


async def test_garbage_and_strangers_are_dropped_and_counted_and_the_rounds_go_on():
    def shout(endpoint):
        host, port = endpoint.split(":")
        for bytes_ in (b"\0" * 64, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 16):
            with closing(socket.create_connection((host, int(port)))) as wire, suppress(OSError):
                wire.sendall(bytes_)
                wire.shutdown(socket.SHUT_WR)
                wire.recv(4096)

    async def post(endpoint):
        strange = tags.tag(Enlist(0, b"s" * 16, "127.0.0.1:1"), bytes(32))
        mine = UploadPiece(b"s" * 16, 1, 0, 0, payload=bytes(4 * SMALL))
        frames = [codec.encode(m).join() for m in (strange, tags.tag(mine, bytes(32)), tags.tag(mine, RUN))]
        async with aiohttp.ClientSession() as session:
            for frame in (*frames, b"nonsense", bytes(MAX_FRAME_BYTES + 1)):
                async with session.post(f"http://{endpoint}/v1/bulk", data=frame) as answer:
                    statuses.append(answer.status)

    def work(gather):
        uploads = [gather(1, zeros(), [0, 1])]
        for endpoint in ends:
            shout(endpoint)
            asyncio.run_coroutine_threadsafe(post(endpoint), loop).result()
        return [*uploads, gather(2, zeros(), [0, 1])]

    loop, statuses = asyncio.get_running_loop(), []
    async with federation(1) as nodes:
        nodes.start(0)
        ends = [endpoint_of(nodes.listener, None), endpoint_of(nodes.clients[0]._listener, None)]
        uploads = await nodes.serve(work)
        dropped = [node.transport.counts.dropped for node in (nodes.server, nodes.clients[0])]

    assert [list(sent) for sent in uploads] == [[0, 1], [0, 1]]
    assert statuses == 2 * [400, 400, 400, 400, 413]
    assert dropped[0]["Enlist of another run"] == 1
    assert dropped[0]["UploadPiece of another run"] == 1
    assert all(counts["not a request of this protocol"] >= 1 for counts in dropped)
    assert all(sum(counts.values()) >= 6 for counts in dropped)


def trained(proximal, *overrides, seed=0):
    task = load_task("digits", ["train.epochs=1", *overrides])
    dataset = load_dataset(task, None, (0, 20))
    model = build_model(task, dataset)
    start = read_vector(model, "*")
    trainer = Trainer(model, task.train, dataset, seed, None, SystemWords(), proximal)
    return trainer.train(start, 1, NEVER).vector, start


def same(weights, start):
    return weights


def test_a_restraint_of_nothing_changes_no_bit_and_a_strong_one_is_clipped_with_the_gradient():
    assert np.array_equal(trained(None)[0], trained(ProximalTerm(0.0, same))[0])
    loose, _ = trained(ProximalTerm(1e6, same), "train.grad_clip=0.01")
    assert np.isfinite(loose).all()


def test_a_seed_of_numbers_gives_the_order_that_they_give():
    assert np.array_equal(trained(None, seed=3)[0], trained(None, seed=(3,))[0])
    assert not np.array_equal(trained(None, seed=3)[0], trained(None, seed=(3, 0))[0])


def test_after_every_batch_training_goes_on_with_what_is_made_of_the_weights():
    seen = []

    def back(weights, start):
        seen.append((tuple(weights.shape), tuple(start.shape), float((weights[0] - start).norm())))
        return start.expand_as(weights)

    vector, start = trained(ProximalTerm(0.0, back))
    assert np.array_equal(vector, start)
    assert len(seen) > 1
    assert {(shape, from_) for shape, from_, _ in seen} == {((1, len(start)), (len(start),))}
    assert all(moved > 0 for *_, moved in seen)


def test_the_gradient_of_the_proximal_term_is_mu_times_the_way_from_the_start():
    one, other = parameters = list(MLP([3, 2]).parameters())
    held = Held(ProximalTerm(0.5, same), parameters)
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(2)
    one.grad = torch.ones_like(one)
    held.pull()
    assert torch.allclose(one.grad, torch.tensor(2.0))
    assert torch.allclose(other.grad, torch.tensor(1.0))  # it had none
