"""The nodes of a federated cell in child processes: one in the server's role, the others with the clients.

A node receives only what it needs: the server the test rows, a client node the rows of its own clients.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import SystemWords, Words
from mechanisms.servers.server import Federation, Indices, Sent, Step
from node.training.build import build
from node.training.gradient_steps import PlainSteps
from node.training.proximal import ProximalTerm
from node.training.trainer import Trainer
from scenarios.clients.preparation import prepared, taught_in_round
from scenarios.clients.work import ClientWork, FederatedArm, node_rows
from scenarios.data.dataset import FederatedDataset
from scenarios.data.partitions import Parts
from scenarios.engines.clock import clocked
from scenarios.engines.federation import Server, work_for
from scenarios.engines.frames import longest_frame
from scenarios.engines.room import LocalRoom
from scenarios.federated.reported import Exchange, as_measured
from scenarios.federated.rounds import parted, remembered, rounds_of, sent_by
from scenarios.frame.work import print_round
from scenarios.study.cells import Shelf

NEVER = threading.Event()
"""Nobody stops the training of a client: a node whose server is gone ends with its next upload."""


@dataclass(frozen=True)
class Post:
    """The input of one of the `nodes` client nodes of a cell, or of its server.

    parts: for each client of the federation its rows in `dataset`, (n,), empty for clients of other nodes;
    the server's parts only have the right lengths. federation: what the mechanism is made for.
    """

    cell: FederatedArm
    dataset: FederatedDataset
    parts: Parts
    federation: Federation
    nodes: int

    def work(self) -> ClientWork:
        """The cell's work, with the rows of this node."""
        cell = self.cell
        model = build(cell.model, cell.seed, node_rows(self.dataset, np.arange(1)))
        mechanism = cell.mechanism.make(self.federation)
        return ClientWork(cell, model, self.dataset, self.dataset, self.parts, mechanism)

    def longest(self, work: ClientWork) -> int:
        """The bytes of the longest frame between the nodes."""
        return longest_frame(work.width, len(self.parts))


@dataclass(frozen=True)
class NodeCrew:
    """A crew whose clients train on real nodes; see Crew. It notes the bytes that the server moves."""

    server: Server
    exchanges: list[Exchange]

    def uploads(self, number: int, given: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """See Crew.uploads."""
        before = replace(self.server.traffic)
        uploads = self.server.gather(number, given, chosen.tolist(), given.shape)
        down, up = self.server.traffic.sent - before.sent, self.server.traffic.received - before.received
        self.exchanges.append(Exchange(number, down, up, len(chosen), len(uploads)))
        return uploads


def serve(post: Post, folder: Path, listener: socket.socket) -> int:
    """Run the server's node: print a line per round, write the outcome to `folder`; return the status."""
    torch.set_num_threads(1)
    work, exchanges = post.work(), list[Exchange]()
    with listener, Server(listener, post.nodes, post.longest(work), say) as server:
        server.assemble()
        crew = NodeCrew(server, exchanges)
        outcome = clocked(
            lambda tell: rounds_of(work, crew, SystemWords(), LocalRoom(folder, say=tell)), print_round
        )
    Shelf(folder).put(post.cell, as_measured(outcome, exchanges))
    return 0


def train(post: Post, number: int, folder: Path) -> int:
    """Run client node `number`: train its clients until the server is done; return the exit status."""
    torch.set_num_threads(1)
    words = SystemWords()
    work = prepared(post.work(), lambda client: words)
    kept: dict[int, Floats] = {}

    def upload(client: int, number: int, given: Floats) -> Floats:
        sent = trained_upload(work, client, number, given, words, kept)
        return remembered({client: sent}, kept)[client]

    work_for(folder, number, post.longest(work), lambda: (work.width,), upload)
    return 0


def trained_upload(
    work: ClientWork,
    client: int,
    number: int,
    given: Floats,
    words: Words,
    kept: Mapping[int, Floats],
) -> Sent:
    """Train for `client` in round `number` by the node's trainer; return what it sends and keeps.

    given: (d + e,), the model and what the server tells; kept: what clients of this node remember. Raises
    Diverged if the model is no longer finite.
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
    trainer = Trainer(work.model, section, rows, tuple(seed), PlainSteps, proximal)
    weights = trainer.train(model, number, NEVER).vector
    return sent_by(work, client, number, model, weights, told, memory[0], words)


def say(line: str) -> None:
    """Print a line to the log and flush it."""
    print(line, flush=True)
