"""Nodes of a federation with a server: machines of protocol.federation under the real shell and transport.

    server   run(work): work, in a thread, calls gather(round, model, chosen) ──▶ the clients' uploads
    client   run(): for each order, trains each of its clients in a thread and sends each upload at once

Both end by themselves: the server when its work is done, a client when the server ends it or is gone.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from node.errors import UserError
from node.logs import Log
from node.net.link import LIMITS
from node.net.listening import endpoint_of
from node.net.routes import answers, asked
from node.net.transport import Transport
from node.observe.health import STILL_MEETING, health
from node.runtime.shell import Shell, is_heavy
from node.training.trainer import Interrupted
from protocol.actions import Action, Assembled, Closed, Fatal, Gathered, Notice, Send, Train
from protocol.crypto.node_key import KEY_BYTES, NodeKey
from protocol.federation.client import FederationClient
from protocol.federation.server import FederationServer
from protocol.vectors.pieces import Floats

T = TypeVar("T")
Gather = Callable[[int, Floats, Sequence[int]], Mapping[int, Floats]]
"""Takes the round (from 1), the model (d,) and the chosen clients; returns the uploads (d,) that arrived."""
TrainClient = Callable[[int, int, Floats, threading.Event], Floats]
"""Takes the client, the round, the model (d,) and a stop event; returns the client's upload (d,).

The event is set when the server no longer waits for the upload; soon after, the call raises Interrupted.
"""
Report = Callable[[str], None]

INSTANCE_BYTES = 16
LASTING = replace(LIMITS, idle_s=math.inf)
"""No idle limit, because a link's end tells a node that another is gone and training clients are silent."""

log = Log("federation")


class ServerGone(UserError):
    """The client's server cannot be reached (any more)."""


class _Node:
    """The common part of both roles: a machine in its shell, with its transport."""

    def __init__(self, machine: FederationServer | FederationClient, dimension: int) -> None:
        heavy = is_heavy(dimension)
        self._shell = Shell(machine, self._send, self._perform, heavy)
        self.transport = Transport(
            receive=self._shell.receive,
            unreachable=self._shell.unreachable,
            reconnected=self._shell.reconnected,
            heavy=heavy,
            tls=None,
            key=NodeKey(os.urandom(KEY_BYTES)),
            warn=self._warn,
            is_member=lambda _: True,
            limits=LASTING,
        )

    def _warn(self, text: str) -> None:
        """Logs a warning: nodes of a simulation show warnings only in their log."""
        log.warning("warning", text=text)

    def _send(self, send: Send) -> None:
        if isinstance(send.to, str):
            self.transport.send(send.to, send.messages, send.bulk)

    async def _perform(self, action: Action) -> list[Action]:
        """Carries out an action other than sending; ignores actions that the role does not know."""
        return []

    @asynccontextmanager
    async def _serving(self, listener: socket.socket, phase: Callable[[], str]) -> AsyncIterator[None]:
        dropped = self.transport.counts.dropped

        def status() -> dict[str, object]:
            return {"phase": phase(), "dropped": dict(dropped)}

        async def missing() -> tuple[str, ...]:
            return (STILL_MEETING,) if phase() == "joining" else ()

        await self.transport.start(listener, answers(health(missing), asked(status)))
        timer = asyncio.create_task(self._shell.keep_time())
        try:
            yield
        finally:
            timer.cancel()
            await self.transport.close()

    async def _first_of(self, *waits: asyncio.Future[Any]) -> None:
        """Waits until one of the `waits` ends; raises its error or that of the machine."""
        ends = (self._shell.broken, *waits)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            if end.done():
                end.result()


class ServerNode(_Node):
    """The server: `work` runs in a thread, rounds on the event loop."""

    def __init__(self, run: bytes, dimension: int, nodes: int, report: Report) -> None:
        """`run` is the secret that names the run, `nodes` the number of client nodes to wait for."""
        self._machine = FederationServer(run, dimension, nodes)
        super().__init__(self._machine, dimension)
        self._report = report
        self._assembled = asyncio.Event()
        self._uploads: asyncio.Future[Mapping[int, Floats]] | None = None
        self._over = False

    async def run(self, listener: socket.socket, work: Callable[[Gather], T]) -> T:
        """Serves until `work` ends and returns its result. Raises UserError and the errors of `work`."""
        loop = asyncio.get_running_loop()

        def gather(number: int, model: Floats, chosen: Sequence[int]) -> Mapping[int, Floats]:
            return asyncio.run_coroutine_threadsafe(self._gather(number, model, chosen), loop).result()

        async with self._serving(listener, self._phase):
            await self._shell.feed(self._machine.open)
            await self._until(self._assembled)
            working = asyncio.create_task(asyncio.to_thread(work, gather))
            try:
                await self._first_of(working)
            finally:
                await self._let_go(working)
            await self._shell.feed(self._machine.close)
        return working.result()

    def _phase(self) -> str:
        return "serving" if self._assembled.is_set() else "joining"

    async def _until(self, event: asyncio.Event) -> None:
        waiting = asyncio.create_task(event.wait())
        try:
            await self._first_of(waiting)
        finally:
            waiting.cancel()

    async def _let_go(self, working: asyncio.Task[T]) -> None:
        """Cancels the wait of the thread, if it waits, and waits for the end of the thread."""
        self._over = True
        if self._uploads is not None:
            self._uploads.cancel()
        await asyncio.gather(working, return_exceptions=True)

    async def _gather(self, number: int, model: Floats, chosen: Sequence[int]) -> Mapping[int, Floats]:
        if self._over:
            raise asyncio.CancelledError
        self._uploads = asyncio.get_running_loop().create_future()
        await self._shell.feed(lambda now: self._machine.begin(number, model, chosen, now))
        return await self._uploads

    async def _perform(self, action: Action) -> list[Action]:
        match action:
            case Assembled():
                self._assembled.set()
            case Gathered() if self._uploads is not None and not self._uploads.done():
                self._uploads.set_result(action.uploads)
            case Notice():
                self._report(f"{action.who} {action.kind}: {action.text}")
            case Fatal():
                raise UserError(action.text)
            case _:
                return await super()._perform(action)
        return []


class ClientNode(_Node):
    """A node that trains clients for a server."""

    def __init__(
        self,
        run: bytes,
        dimension: int,
        node: int,
        listener: socket.socket,
        server: str,
        train: TrainClient,
    ) -> None:
        """`node` is this node's number, `server` the server's endpoint, `listener` this node's socket."""
        self._machine = FederationClient(
            run=run,
            dimension=dimension,
            node=node,
            instance=os.urandom(INSTANCE_BYTES),
            endpoint=endpoint_of(listener, None),
            server=server,
        )
        super().__init__(self._machine, dimension)
        self._listener = listener
        self._train = train
        self._orders: asyncio.Queue[Train] = asyncio.Queue(1)
        self._stop = threading.Event()
        self._closed = asyncio.Event()

    async def run(self) -> None:
        """Carries out orders until the server has no more. Raises ServerGone and the errors of training."""
        async with self._serving(self._listener, lambda: "serving"):
            await self._shell.feed(self._machine.open)
            working = asyncio.create_task(self._work())
            closed = asyncio.create_task(self._closed.wait())
            try:
                await self._first_of(working, closed)
            finally:
                self._stop.set()
                working.cancel()
                closed.cancel()
                # The server may also end while the links close; a node that has ended must not react to that.
                await self._shell.feed(self._shell.last(lambda now: []), light=lambda: True)

    async def _work(self) -> bool:
        while True:
            order = await self._orders.get()
            self._stop.clear()
            with suppress(Interrupted):
                for client in order.clients:
                    await self._train_one(order, client)

    async def _train_one(self, order: Train, client: int) -> None:
        upload = await asyncio.to_thread(self._train, client, order.round, order.model, self._stop)
        await self._shell.feed(lambda now: self._machine.trained(order.round, client, upload, now))

    def _take(self, order: Train) -> None:
        """Queues an order; training for the previous order, which nobody waits for, stops first."""
        self._stop.set()
        with suppress(asyncio.QueueEmpty):
            self._orders.get_nowait()
        self._orders.put_nowait(order)

    async def _perform(self, action: Action) -> list[Action]:
        match action:
            case Train():
                self._take(action)
            case Closed():
                self._closed.set()
            case Fatal():
                raise ServerGone(action.text)
            case _:
                return await super()._perform(action)
        return []
