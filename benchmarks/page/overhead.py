"""The cost of watching: one swarm, whose nodes are watched in every other block of rounds.

To watch a node, a client keeps its page open, and a monitor requests its metrics once a second, fifteen times
as often as usual. No run can switch its log off on the way, so the time to write a round's events to a JSON
log is measured by itself.
"""

from __future__ import annotations

import http.client
import io
import re
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.rounds import Endings
from benchmarks.spec import Figure, figure
from node.cli.logs import Log, LogOptions, logging_to
from node.observe.log_observer import LogObserver
from node.runtime.record.events import RoundEnded, RoundStarted
from node.runtime.record.figures import Record
from node.system.addresses import split_endpoint
from node.system.errors import UserError
from node.task.load import load_task
from scenarios.swarms.nodes import SwarmPlan, run_swarm
from scenarios.swarms.progress import PeerProgress

TASK = "digits"
BLOCK = 6
"""Rounds of a block, in which nodes are watched or not. The first `SKIPPED` of each block do not count."""
SKIPPED = 2
SCRAPED_S = 1.0
LOGGED = 2000
AT_MOST_PERCENT = 3.0
_RECORD = Record(
    round=7,
    outcome="aggregated",
    reason=None,
    participants=5,
    loss=0.25,
    accuracy=0.9375,
    metric="accuracy",
    value=0.9375,
    baseline=0.1,
    epsilon=None,
    delta=None,
    bytes_sent=123_456,
    bytes_received=123_456,
    train_s=0.25,
    aggregate_s=0.125,
    base_digest="ab" * 32,
    accuracy_of="test",
    train_loss=0.25,
    missing=(),
    clipped=0,
    phases={},
    metrics={},
)
_PAGE = re.compile(r"^page: http://([^/\s]+)/", re.MULTILINE)


class Watcher:
    """A client that keeps a node's page open, and a monitor that requests its metrics."""

    def __init__(self, endpoint: str) -> None:
        self._socket = socket.create_connection(split_endpoint(endpoint), timeout=20)
        self._socket.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {endpoint}\r\n\r\n".encode())
        self._socket.settimeout(None)
        self._endpoint = endpoint
        self._gone = threading.Event()
        for work in (self._read, self._scrape):
            threading.Thread(target=work, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):
            while self._socket.recv(65536):
                pass

    def _scrape(self) -> None:
        while not self._gone.wait(SCRAPED_S):
            with suppress(OSError, http.client.HTTPException):
                asked = http.client.HTTPConnection(*split_endpoint(self._endpoint), timeout=20)
                asked.request("GET", "/metrics")
                asked.getresponse().read()
                asked.close()

    def close(self) -> None:
        """Close the page, stop the monitor."""
        self._gone.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Turns:
    """Starts and stops the watchers as rounds end."""

    def __init__(self, plan: SwarmPlan) -> None:
        self._plan = plan
        self._watchers: list[Watcher] = []

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Start or stop the watchers, by the next round of the slowest peer."""
        ended = min(peer.round for peer in peers)
        if is_watched(ended + 1) and not self._watchers:
            self._watchers = [Watcher(endpoint) for endpoint in self._endpoints()]
        elif not is_watched(ended + 1):
            self.close()

    def close(self) -> None:
        """Stop all watchers."""
        for watcher in self._watchers:
            watcher.close()
        self._watchers = []

    def _endpoints(self) -> Iterator[str]:
        for peer in range(self._plan.peers):
            found = _PAGE.search((self._plan.peer_folder(peer) / "log.txt").read_text("utf-8"))
            if found is None:
                raise UserError(f"page: the log of peer {peer} does not say where its page is")
            yield found[1]


def is_watched(round: int) -> bool:
    """Return whether the nodes are watched in this round."""
    return (round - 1) // BLOCK % 2 == 1


def is_counted(round: int) -> bool:
    """Return whether this round counts: it is none of the first `SKIPPED` of its block."""
    return (round - 1) % BLOCK >= SKIPPED


def overhead_figure(nodes: int, rounds: int) -> Figure:
    """Run a swarm; return by how many percent the median round is longer while all nodes are watched.

    Raises UserError if there are too few rounds to compare.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan = SwarmPlan(load_task(TASK, []), nodes, rounds, Path(folder))
        paths = [plan.peer_folder(peer) / "history.jsonl" for peer in range(nodes)]
        turns = Turns(plan)
        with Endings(paths) as endings:
            run_swarm(plan, turns.peers)
            turns.close()
        took = [(number, s) for path in paths for number, s in enumerate(endings.seconds(path), start=2)]
    watched = [s for number, s in took if is_counted(number) and is_watched(number)]
    alone = [s for number, s in took if is_counted(number) and not is_watched(number)]
    if not watched or not alone:
        raise UserError(f"page: {rounds} rounds are too few to compare")
    percent = 100 * (median(watched) / median(alone) - 1)
    note = (
        f"{median(watched):.3f} s watched, {median(alone):.3f} s not; {len(watched)} and {len(alone)} rounds"
    )
    case = f"{TASK} n={nodes}"
    return figure("page", case, "a round is longer by", "%", [percent], AT_MOST_PERCENT, note)


def logging_figure() -> Figure:
    """Return the median milliseconds to write the events of a round as lines of a JSON log."""
    written = io.StringIO()
    taken: list[float] = []
    with logging_to(written, LogOptions("json", "info")):
        observer = LogObserver(Log("node"))
        for number in range(1, LOGGED):
            begun = time.perf_counter()
            observer.handle(RoundStarted(number))
            observer.handle(RoundEnded(_RECORD, LOGGED))
            taken.append(1000 * (time.perf_counter() - begun))
    if not written.getvalue():
        raise UserError("page: a round wrote no line into the log")
    return figure("page", "log", "a round's events as JSON lines", "ms", [median(taken)])
