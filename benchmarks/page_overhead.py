"""What watching costs: rounds of one swarm, by turns with a watcher at every node and with none."""

from __future__ import annotations

import re
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.rounds import Endings
from benchmarks.spec import Figure, figure
from node.addresses import split_endpoint
from node.config import load_task
from node.errors import UserError
from scenarios.progress import PeerProgress
from scenarios.swarm import SwarmPlan, run_swarm

TASK = "digits"
BLOCK = 6
"""So many rounds are watched, and then so many are not; the first two of each are not counted."""
SKIPPED = 2
AT_MOST_PERCENT = 3.0
_PAGE = re.compile(r"^page: http://([^/\s]+)/", re.MULTILINE)


class Watcher:
    """Somebody who has the page open: it reads, and does nothing else."""

    def __init__(self, endpoint: str) -> None:
        self._socket = socket.create_connection(split_endpoint(endpoint), timeout=20)
        self._socket.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {endpoint}\r\n\r\n".encode())
        self._socket.settimeout(None)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):
            while self._socket.recv(65536):
                pass

    def close(self) -> None:
        """Leave."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Turns:
    """A display that shows nothing: it opens and closes the pages as the rounds go by."""

    def __init__(self, plan: SwarmPlan) -> None:
        self._plan = plan
        self._watchers: list[Watcher] = []

    def stage(self, text: str) -> None:
        """A new part of the run begins."""

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Rounds have ended: is it the turn of those who watch?"""
        ended = min(peer.round for peer in peers)
        if is_watched(ended + 1) and not self._watchers:
            self._watchers = [Watcher(endpoint) for endpoint in self._endpoints()]
        elif not is_watched(ended + 1):
            self.close()

    def baselines(self, rounds_done: int, rounds_in_all: int) -> None:
        """There are none here."""

    def close(self) -> None:
        """Nobody watches."""
        for watcher in self._watchers:
            watcher.close()
        self._watchers = []

    def _endpoints(self) -> Iterator[str]:
        for peer in range(self._plan.peers):
            found = _PAGE.search((self._plan.peer_folder(peer) / "log.txt").read_text("utf-8"))
            if found is None:
                raise UserError(f"peer {peer} does not say where its page is")
            yield found[1]


def is_watched(round: int) -> bool:
    """Whether somebody has the page open in this round."""
    return (round - 1) // BLOCK % 2 == 1


def is_counted(round: int) -> bool:
    """Whether the turn was not just changing."""
    return (round - 1) % BLOCK >= SKIPPED


def overhead(nodes: int, rounds: int) -> Figure:
    """By how much the median round is longer while somebody watches every node, in percent."""
    with tempfile.TemporaryDirectory() as folder:
        plan = SwarmPlan(load_task(TASK, []), nodes, rounds, Path(folder))
        paths = [plan.peer_folder(peer) / "history.jsonl" for peer in range(nodes)]
        turns = Turns(plan)
        with Endings(paths) as endings:
            run_swarm(plan, turns)
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
