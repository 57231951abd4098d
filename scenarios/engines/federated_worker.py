"""The nodes of a federated cell in child processes: one in the server's role, the others with the clients.

A node is given what it needs and no more: the server the test rows, a client's node its own clients' rows.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import SystemWords, Words
from mechanisms.servers.server import Federation, Indices, Step
from node.federation import ClientNode, Gather, ServerGone, ServerNode
from node.training.build import build
from node.training.proximal import ProximalTerm
from node.training.trainer import Trainer
from scenarios.clients.preparation import prepared
from scenarios.clients.work import ClientWork, FederatedArm, node_rows
from scenarios.data.dataset import Dataset
from scenarios.data.partitions import Parts
from scenarios.engines.inline import LocalRoom, round_line
from scenarios.federated.rounds import rounds_of, upload_of
from scenarios.study.cells import Outcome, Shelf

SERVER_GONE = 3
"""The exit status of a client node whose server went away: the fault is not its own."""


@dataclass(frozen=True)
class Post:
    """What one of the `nodes` client nodes of a cell, or its server, is given to work with.

    parts: the rows of each client of the federation in `dataset`, (n,) each, none for clients elsewhere; in
    the server's they are numbers only. federation: as the mechanism is to be made for. run: the secret.
    """

    cell: FederatedArm
    dataset: Dataset
    parts: Parts
    federation: Federation
    nodes: int
    run: bytes = field(repr=False)

    def work(self) -> ClientWork:
        """The cell's work, with the rows that are here."""
        cell = self.cell
        model = build(cell.model, cell.seed, node_rows(self.dataset, np.arange(1)))
        mechanism = cell.mechanism.make(self.federation)
        return ClientWork(cell, model, self.dataset, self.dataset, self.parts, mechanism)


@dataclass(frozen=True)
class NodeCrew:
    """The clients of real nodes; see Crew."""

    gather: Gather

    def uploads(self, number: int, model: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """See Crew.uploads."""
        return self.gather(number, model, chosen.tolist())


def serve(post: Post, listener: socket.socket, folder: Path) -> int:
    """The server's node: all rounds, a line each; the outcome goes to `folder`. Gives the exit status."""
    torch.set_num_threads(1)
    work, room = post.work(), LocalRoom(folder, 1, lambda number, figure: say(round_line(number, figure)))

    def rounds(gather: Gather) -> Outcome:
        return rounds_of(work, NodeCrew(gather), SystemWords(), room)

    async def run() -> Outcome:
        return await ServerNode(post.run, len(work.start), post.nodes, say).run(listener, rounds)

    with listener:
        Shelf(folder).put(post.cell, asyncio.run(run()))
    return 0


def train(post: Post, number: int, listener: socket.socket, server: str) -> int:
    """Client node `number`: its clients, round by round, until the server is done. Gives the exit status."""
    torch.set_num_threads(1)
    words = SystemWords()
    work = prepared(post.work(), lambda client: words)

    def upload(client: int, number: int, model: Floats, stop: threading.Event) -> Floats:
        return trained_upload(work, client, number, model, words, stop)

    async def run() -> None:
        await ClientNode(post.run, len(work.start), number, listener, server, upload).run()

    with listener:
        try:
            asyncio.run(run())
        except ServerGone as error:
            print(error, file=sys.stderr)
            return SERVER_GONE
    return 0


def trained_upload(
    work: ClientWork, client: int, number: int, model: Floats, words: Words, stop: threading.Event
) -> Floats:
    """What `client` sends, (d,), after training `model` (d,) in round `number`, by the node's own trainer.

    Raises Interrupted soon after `stop` is set, Diverged where training leaves the finite numbers.
    """
    mechanism, part = work.mechanism, work.parts[client]
    section = replace(work.cell.train, grad_clip=work.training.grad_clip)
    step = Step(np.array([client]), section.learning_rate)
    proximal = ProximalTerm(
        mechanism.proximal, lambda weights, start: mechanism.after_batch(weights, start, step)
    )
    *seed, _ = work.order_seed(client, number)
    rows = node_rows(work.taught, part)
    trainer = Trainer(work.model, section, rows, tuple(seed), None, words, proximal)
    weights = trainer.train(model, number, stop).vector
    return upload_of(work, client, number, model, weights, words)


def say(line: str) -> None:
    """A line of the log, there at once."""
    print(line, flush=True)
