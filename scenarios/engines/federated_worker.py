"""The nodes of a federated cell in child processes: one in the server's role, the others with the clients.

A node receives only what it needs: the server the test rows, a client node the rows of its own clients.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import SystemWords, Words
from mechanisms.servers.server import Federation, Indices, Sent, Step
from node.federation import ClientNode, Gather, ServerGone, ServerNode
from node.net.traffic import Counts
from node.training.build import build
from node.training.proximal import ProximalTerm
from node.training.trainer import Trainer
from scenarios.clients.preparation import prepared, taught_in_round
from scenarios.clients.work import ClientWork, FederatedArm, node_rows
from scenarios.data.dataset import Dataset
from scenarios.data.partitions import Parts
from scenarios.engines.clock import clocked
from scenarios.engines.room import LocalRoom
from scenarios.federated.reported import Exchange, as_measured
from scenarios.federated.rounds import parted, remembered, rounds_of, sent_by
from scenarios.frame.work import round_line
from scenarios.study.cells import Outcome, Shelf

SERVER_GONE = 3
"""The exit status of a client node that lost its server, through no fault of its own."""


@dataclass(frozen=True)
class Post:
    """The input of one of the `nodes` client nodes of a cell, or of its server.

    parts: for each client of the federation its rows in `dataset`, (n,), empty for clients of other nodes;
    the server's parts only have the right lengths. federation: what the mechanism is made for. run: the
    secret that names the run.
    """

    cell: FederatedArm
    dataset: Dataset
    parts: Parts
    federation: Federation
    nodes: int
    run: bytes = field(repr=False)

    def work(self) -> ClientWork:
        """The cell's work, with the rows of this node."""
        cell = self.cell
        model = build(cell.model, cell.seed, node_rows(self.dataset, np.arange(1)))
        mechanism = cell.mechanism.make(self.federation)
        return ClientWork(cell, model, self.dataset, self.dataset, self.parts, mechanism)


@dataclass(frozen=True)
class NodeCrew:
    """A crew whose clients train on real nodes; see Crew. It counts the bytes that the server moves."""

    gather: Gather
    counts: Counts
    exchanges: list[Exchange]

    def uploads(self, number: int, given: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """See Crew.uploads."""
        sent, received = self.counts.sent.total(), self.counts.received.total()
        uploads = self.gather(number, given, chosen.tolist())
        down, up = self.counts.sent.total() - sent, self.counts.received.total() - received
        self.exchanges.append(Exchange(number, down, up, len(chosen), len(uploads)))
        return uploads


def serve(post: Post, listener: socket.socket, folder: Path) -> int:
    """Run the server's node: print a line per round, write the outcome to `folder`; return the status."""
    torch.set_num_threads(1)
    work = post.work()

    async def run() -> Outcome:
        node = ServerNode(post.run, work.width, post.nodes, say)
        exchanges: list[Exchange] = []

        def rounds(gather: Gather) -> Outcome:
            crew = NodeCrew(gather, node.transport.counts, exchanges)
            return clocked(
                lambda tell: rounds_of(work, crew, SystemWords(), LocalRoom(folder, 1, tell)),
                lambda number, figure: say(round_line(number, figure)),
            )

        return as_measured(await node.run(listener, rounds), exchanges)

    with listener:
        Shelf(folder).put(post.cell, asyncio.run(run()))
    return 0


def train(post: Post, number: int, listener: socket.socket, server: str) -> int:
    """Run client node `number`: train its clients until the server is done; return the exit status."""
    torch.set_num_threads(1)
    words = SystemWords()
    work = prepared(post.work(), lambda client: words)
    kept: dict[int, Floats] = {}

    def upload(client: int, number: int, given: Floats, stop: threading.Event) -> Floats:
        sent = trained_upload(work, client, number, given, words, stop, kept)
        return remembered({client: sent}, kept)[client]

    return run_client(lambda: ClientNode(post.run, work.width, number, listener, server, upload), listener)


def run_client(made: Callable[[], ClientNode], listener: socket.socket) -> int:
    """Run the client node that `made` makes until the server is done; return the exit status."""

    async def run() -> None:
        await made().run()

    with listener:
        try:
            asyncio.run(run())
        except ServerGone as error:
            print(error, file=sys.stderr)
            return SERVER_GONE
    return 0


def trained_upload(
    work: ClientWork,
    client: int,
    number: int,
    given: Floats,
    words: Words,
    stop: threading.Event,
    kept: Mapping[int, Floats],
) -> Sent:
    """Train for `client` in round `number` by the node's trainer; return what it sends and keeps.

    given: (d + e,), the model and what the server tells; kept: what clients of this node remember. Raises
    Interrupted soon after `stop` is set, Diverged if the model is no longer finite.
    """
    mechanism, part = work.mechanism, work.parts[client]
    model, told = parted(work, given)
    memory = work.kept_by([client], kept)
    section = replace(work.cell.train, grad_clip=work.training.grad_clip)
    step = Step(np.array([client]), section.learning_rate, told, memory)
    proximal = ProximalTerm(
        work.training.proximal_mu, lambda weights, start: mechanism.after_batch(weights, start, step)
    )
    *seed, _ = work.order_seed(client, number)
    rows = node_rows(taught_in_round(work, {client: words}), part)
    trainer = Trainer(work.model, section, rows, tuple(seed), None, words, proximal)
    weights = trainer.train(model, number, stop).vector
    return sent_by(work, client, number, model, weights, told, memory[0], words)


def say(line: str) -> None:
    """Print a line to the log and flush it."""
    print(line, flush=True)
