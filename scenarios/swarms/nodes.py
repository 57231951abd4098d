"""A swarm of real node processes on loopback: starts them, follows their histories, waits for their ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.observe.history_reader import Tail
from node.options import NodeOptions
from node.runtime.record.figures import Record, Summary
from node.system.addresses import PeerAddress
from node.system.errors import ConfigError, UserError
from node.task.sections import Task
from scenarios.data.dataset import FederatedDataset
from scenarios.frame.children import PRELOAD, Children, warm_up
from scenarios.swarms.history import by_round, read_history, read_summary
from scenarios.swarms.progress import PeerProgress

HOST = "127.0.0.1"
BACKLOG = 128
POLL_S = 0.2
STALL_MARGIN_S = 300.0
PEERS_AT_MOST = 64

Tell = Callable[[Sequence[PeerProgress]], None]
"""Takes the progress of all peers whenever one has ended a round."""


@dataclass(frozen=True)
class SwarmPlan:
    """The swarm to start: `peers` nodes learn `task` for `rounds` rounds, each on its part of the data.

    `rows`: each peer's rows and the common test rows; None: the peers divide the task's own data.
    """

    task: Task
    peers: int
    rounds: int
    folder: Path
    rows: tuple[FederatedDataset, ...] | None = None

    def peer_folder(self, peer: int) -> Path:
        """The folder of peer number `peer`, from 0."""
        return self.folder / "peers" / str(peer)

    @property
    def stall_s(self) -> float:
        """Seconds that no round can exceed: all waits of a node are capped, the margin is for training."""
        caps = self.task.aggregation
        return caps.group_timeout_s + caps.shares_timeout_s + caps.sums_timeout_s + STALL_MARGIN_S


def batch_seed(task: Task, peers: int, peer: int) -> int:
    """The seed of a peer's batch order, different for all peers and seeds of the task; its baseline's too."""
    return task.task.seed * peers + peer


def checked_peers(task: Task, peers: int) -> int:
    """Return `peers` if a swarm can have this number of peers. Raises ConfigError otherwise."""
    least = task.aggregation.min_participants
    if not least <= peers <= PEERS_AT_MOST:
        raise ConfigError(
            f"--peers {peers}: allowed are {least} (aggregation.min_participants) to {PEERS_AT_MOST}"
        )
    return peers


@dataclass(frozen=True)
class PeerRun:
    """The run of one peer: its rounds in order, and its summary."""

    peer: int
    rounds: tuple[Record, ...]
    summary: Summary


def run_swarm(plan: SwarmPlan, tell: Tell) -> tuple[PeerRun, ...]:
    """Start the peers, tell their progress until all have ended, and read their files.

    If an earlier run of the same plan has finished the last round of all peers, none is started again.
    Otherwise every peer resumes from its folder. Raises UserError if a peer fails or the swarm stalls.
    """
    if not is_finished(plan):
        warm_up(preload(plan.task))
        with Children() as children:
            _start(plan, children)
            _watch(plan, children, tell)
    return tuple(_peer_run(plan, peer) for peer in range(plan.peers))


def preload(task: Task) -> tuple[str, ...]:
    """What the nodes of a swarm import: torch's compiler, more than a second, with a class of optimiser."""
    own = ":" in task.train.optimizer or task.train.optimizer_args
    return (*PRELOAD, "torch._dynamo") if own else PRELOAD


def is_finished(plan: SwarmPlan) -> bool:
    """Whether the files of an earlier run show that all peers have finished the last round."""
    summaries = [read_summary(plan.peer_folder(peer) / "summary.json") for peer in range(plan.peers)]
    return all(summary is not None and summary.rounds >= plan.rounds for summary in summaries)


def _start(plan: SwarmPlan, children: Children) -> None:
    with listeners(plan.peers) as sockets:
        endpoints = endpoints_of(sockets)
        for peer, listener in enumerate(sockets):
            log = plan.peer_folder(peer) / "log.txt"
            options = node_options(plan, peer, endpoints)
            if plan.rows is None:
                run: tuple[Any, ...] = ("node.app.run:run", options)
            else:
                run = ("scenarios.swarms.dealt_worker:run_node", options, plan.rows[peer])
            children.start(f"peer {peer}", log, *run, listener)


@contextmanager
def listeners(count: int) -> Iterator[list[socket.socket]]:
    """Listening sockets on free ports, bound before any peer starts, so that no port is lost in between."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)
        ]
        for listener in sockets:
            listener.bind((HOST, 0))
            listener.listen(BACKLOG)
        yield sockets


def endpoints_of(sockets: Sequence[socket.socket]) -> tuple[str, ...]:
    """Where sockets of this machine listen."""
    return tuple(f"{HOST}:{listener.getsockname()[1]}" for listener in sockets)


def node_options(plan: SwarmPlan, peer: int, endpoints: tuple[str, ...]) -> NodeOptions:
    """The options that the command line of peer number `peer` would give."""
    return NodeOptions(
        peers=tuple(PeerAddress(endpoint=endpoint, key=None) for endpoint in endpoints),
        listen=endpoints[peer],
        task=plan.task,
        shard=(peer, plan.peers),
        rounds=plan.rounds,
        wait_s=0.0,
        alone_s=0.0,
        out=plan.peer_folder(peer),
        seed=batch_seed(plan.task, plan.peers, peer),
    )


def _watch(plan: SwarmPlan, children: Children, tell: Tell) -> None:
    tails = [Tail(plan.peer_folder(peer) / "history.jsonl") for peer in range(plan.peers)]
    seen: list[tuple[Record, ...]] = [() for _ in tails]
    last_news_s = time.monotonic()
    running = True
    while running:
        # Asked before reading, so that the last reading follows the end of the last process.
        running = bool(children.running())
        fresh = [tail.read() for tail in tails]
        if any(fresh):
            last_news_s = time.monotonic()
            seen = [by_round((*old, *new)) for old, new in zip(seen, fresh, strict=True)]
            tell([PeerProgress.of(rounds) for rounds in seen])
        if running and time.monotonic() - last_news_s > plan.stall_s:
            ended = min(rounds[-1].round if rounds else 0 for rounds in seen)
            raise UserError(
                f"no peer has ended a round for {plan.stall_s:.0f} s (round {ended} of {plan.rounds}); "
                f"see the logs in {plan.folder / 'peers'}"
            )
        if running:
            children.wait(POLL_S)


def _peer_run(plan: SwarmPlan, peer: int) -> PeerRun:
    folder = plan.peer_folder(peer)
    summary = read_summary(folder / "summary.json")
    rounds = read_history(folder / "history.jsonl")
    if summary is None or not rounds:
        missing = "summary.json" if summary is None else "history.jsonl"
        raise UserError(f"peer {peer} ended without {missing}; see {folder / 'log.txt'}")
    return PeerRun(peer, rounds, summary)
