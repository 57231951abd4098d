"""Engine `processes`: federated and vertical cells as real node processes, one of them a server.

    this process ──posts──▶ server node ◀──models, uploads──▶ client nodes, at most 12
                 ◀── a line a round, the outcome ──┘

Client i of N is trained on node i mod min(N, 12). If a client node is killed, the rounds continue without it.
If one fails by itself, or the server ends in any way, the run ends. In vertical learning the leader is the
server and the follower its only client, without which it cannot continue. The nodes of its peers run a
swarm's cell, and its parent hands them their rows if the task has none. Cells that involve no nodes are
replayed.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from node.cli.sigint import INTERRUPTED
from scenarios.clients.work import ClientWork, client_work, federation_of
from scenarios.data.dataset import FederatedDataset
from scenarios.data.partitions import Parts
from scenarios.engines.clock import clocked
from scenarios.engines.engine import Place, SweepDisplay, cores
from scenarios.engines.federated_worker import Post
from scenarios.engines.federation import SERVER_GONE
from scenarios.engines.frames import NAME, listen
from scenarios.engines.inline import InlineEngine
from scenarios.engines.room import LocalRoom
from scenarios.engines.vertical_worker import Told
from scenarios.federated.cell import FederatedCell
from scenarios.federated.reported import census_of, with_clients
from scenarios.frame.children import Child, Children, warm_up
from scenarios.frame.work import one_line, rounds_said
from scenarios.study.cells import Cell, Outcome, Shelf, cell_name
from scenarios.swarms.cells import SwarmCell, run_nodes
from scenarios.swarms.dealt import PeersCell
from scenarios.swarms.dealt_nodes import run_dealt
from scenarios.swarms.nodes import preload
from scenarios.vertical.cell import DATA_SET, VerticalCell, plan_of
from scenarios.vertical.parties import dealt

MOST_NODES = 12
"""The most client nodes of one cell; more clients share them."""
PRELOAD = (
    "scenarios.engines.federated_worker",
    "scenarios.engines.vertical_worker",
    "sklearn.datasets",
    "torch._dynamo",
)
POLL_S = 0.2
END_S = 10.0
"""Seconds that the client nodes of a cell have, together, to end after its server has ended."""


@dataclass(frozen=True)
class ProcessesEngine:
    """An engine that runs `jobs` cells with a server side by side, and swarms and replays one by one."""

    jobs: int

    def run(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        """See Engine.run."""
        for kind, group in groupby(cells, type):
            if issubclass(kind, FederatedCell | VerticalCell):
                self._with_servers(group, place, display)
            elif kind in (SwarmCell, PeersCell):  # what is derived from them is replayed
                self._swarms(group, place, display)
            else:
                InlineEngine(1, cores()).run(list(group), place, display)

    def _with_servers(self, cells: Iterable[Cell], place: Place, display: SweepDisplay) -> None:
        waiting = deque(cells)
        running: list[Running] = []
        library = LocalRoom(place.data_dir)
        warm_up(PRELOAD)
        with Children() as children:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    running.append(started(waiting.popleft(), place, library, children))
                running = [one for one in running if not one.ended(place, display)]
                if running:
                    children.wait(POLL_S)

    def _swarms(self, cells: Iterable[Cell], place: Place, display: SweepDisplay) -> None:
        library = LocalRoom(place.data_dir)
        for cell in cells:
            if isinstance(cell, SwarmCell | PeersCell):
                warm_up(preload(cell.task))  # it loads while this process loads the data
                with one_line(cell_name(cell), place.shelf.log(cell)):
                    outcome = self._swarm(cell, place, library, display)
                place.shelf.put(cell, outcome)
                display.cell_ended(cell, outcome)

    def _swarm(
        self, cell: SwarmCell | PeersCell, place: Place, library: LocalRoom, display: SweepDisplay
    ) -> Outcome:
        def say(number: int, figure: float) -> None:
            display.round_ended(cell, number, figure)

        if isinstance(cell, PeersCell):
            return clocked(lambda tell: run_dealt(cell, library, folder_of(cell, place), tell), say)
        return clocked(lambda tell: run_nodes(cell, folder_of(cell, place), tell), say)


def folder_of(cell: Cell, place: Place) -> Path:
    """The folder in which the nodes of a cell write."""
    return place.folder / "nodes" / f"{cell.arm}-{cell.seed}"


class Running:
    """The processes of one cell with a server."""

    def __init__(
        self,
        cell: Cell,
        folder: Path,
        server: Child,
        clients: Sequence[Child],
        finish: Callable[[Outcome], Outcome],
    ) -> None:
        """`finish`: adds to the server's outcome what the server does not know."""
        self._cell = cell
        self._finish = finish
        self._folder = folder
        self._server = server
        self._clients = clients
        self._told = 0

    def ended(self, place: Place, display: SweepDisplay) -> bool:
        """Show new rounds, and store the outcome once there is one; return whether. Raises UserError."""
        status = self._server.process.exitcode  # before reading: an ended server's log is complete
        for number, figure in rounds_said(self._server.log)[self._told :]:
            display.round_ended(self._cell, number, figure)
            self._told = number
        with one_line(cell_name(self._cell), place.shelf.log(self._cell)):
            if status is not None:
                self._let_clients_end()
            self._check()
            if status is None:
                return False
            outcome = self._finish(Shelf(self._folder).get(self._cell))
        place.shelf.put(self._cell, outcome)
        display.cell_ended(self._cell, outcome)
        return True

    def _let_clients_end(self) -> None:
        """Wait for the client nodes to end by themselves; kill those that still train, or are stopped."""
        (self._folder / NAME).unlink(missing_ok=True)
        end = time.monotonic() + END_S
        for client in self._clients:
            client.process.join(max(0.0, end - time.monotonic()))
            if client.process.exitcode is None:
                client.process.kill()

    def _check(self) -> None:
        """Raise UserError if a client node or the server failed; a client's failure is reported first."""
        for child in (*self._clients, self._server):
            status, failure = child.process.exitcode, child.failure()
            missed = status is not None and (status < 0 or status in (SERVER_GONE, INTERRUPTED))
            if failure is not None and (child is self._server or not missed):
                raise failure


@dataclass(frozen=True)
class NodeJob:
    """A node to start: its name, its log, its function, and the function's first arguments."""

    name: str
    log: str
    worker: str
    given: tuple[Any, ...]


@dataclass(frozen=True)
class Nodes:
    """The nodes of a cell, the server first, and what completes the server's outcome."""

    jobs: list[NodeJob]
    finish: Callable[[Outcome], Outcome]


def started(cell: Cell, place: Place, library: LocalRoom, children: Children) -> Running:
    """Start a server and client nodes for a cell. Raises UserError."""
    with one_line(cell_name(cell), place.shelf.log(cell)):
        nodes = nodes_of(cell, library)
        serving, *others = nodes.jobs
    folder = folder_of(cell, place)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with listen(folder) as listener:
        given = (*serving.given, folder, listener)
        server = children.start(serving.name, folder / serving.log, serving.worker, *given)
        clients = [
            children.start(job.name, folder / job.log, job.worker, *job.given, folder) for job in others
        ]
    return Running(cell, folder, server, clients, nodes.finish)


def nodes_of(cell: Cell, library: LocalRoom) -> Nodes:
    """The nodes of a cell. Raises ConfigError."""
    if isinstance(cell, VerticalCell):
        leaders, followers = dealt(library.vertical(DATA_SET))
        plan = plan_of(cell, len(leaders.labels), len(leaders.evaluated_labels))
        told, worker = Told(cell, plan), "scenarios.engines.vertical_worker"
        leader = NodeJob("leader node", "leader.log", f"{worker}:lead", (told, leaders))
        follower = NodeJob("follower node", "follower.log", f"{worker}:follow", (told, followers))
        return Nodes([leader, follower], lambda outcome: outcome)
    if not isinstance(cell, FederatedCell):
        raise TypeError(f"{type(cell).__name__} has no server")
    work = client_work(cell, library.dataset(cell.rows.dataset, cell.seed))
    census = census_of(work)
    server, *clients = posts(work)
    worker = "scenarios.engines.federated_worker"
    jobs = [
        NodeJob("server node", "server.log", f"{worker}:serve", (server,)),
        *(
            NodeJob(f"client node {number}", f"client-{number}.log", f"{worker}:train", (post, number))
            for number, post in enumerate(clients)
        ),
    ]
    return Nodes(jobs, lambda outcome: with_clients(outcome, census))


# -- inputs of the nodes -----------------------------------------------------------------------------------


def posts(work: ClientWork) -> list[Post]:
    """The server's post, with the test rows and one training row for its shape; then one for each node."""
    clients = len(work.parts)
    nodes = min(MOST_NODES, clients)
    federation = federation_of(work.cell, work.model, work.parts)
    counts = tuple(np.zeros(len(part), np.int64) for part in work.parts)
    servers = (work.dataset.only(np.arange(1)), counts)
    given = (servers, *(_clients(work, range(node, clients, nodes)) for node in range(nodes)))
    return [Post(work.cell, dataset, parts, federation, nodes) for dataset, parts in given]


def _clients(work: ClientWork, mine: range) -> tuple[FederatedDataset, Parts]:
    """The input of a client node: the rows of the clients `mine`, and one test row for its shape."""
    kept = np.concatenate([work.parts[client] for client in mine])
    dataset = work.dataset.only(kept)
    ends = iter(np.split(np.arange(len(kept)), np.cumsum([len(work.parts[client]) for client in mine])))
    none = np.arange(0)
    parts = tuple(next(ends) if client in mine else none for client in range(len(work.parts)))
    return replace(dataset, test_x=dataset.test_x[:1], test_y=dataset.test_y[:1]), parts
