"""A swarm of real `python -m node` processes, to kill, restart and measure."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from benchmarks.memory.residence import resident_bytes
from node.system.errors import UserError
from scenarios.swarms.nodes import endpoints_of, listeners

NODES = 4
ROUNDS = 1_000_000
SETTINGS = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,16,10]")
START_S = 120.0
POLL_S = 0.05
END_S = 20.0


class Swarm:
    """Four nodes that learn the digits, in folders below `folder`, while the context is entered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with listeners(NODES) as sockets:
            self.endpoints = endpoints_of(sockets)  # whose ports are free from now on
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Swarm:
        for node in range(NODES):
            self.start(node)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGTERM)  # the second SIGTERM ends the node without a last round
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            process.kill()
            process.wait()

    def start(self, node: int) -> None:
        """Start a node. If it ran before, it resumes from its folder."""
        argv = [sys.executable, "-m", "node", "--peers", ",".join(self.endpoints), "--listen"]
        argv += [self.endpoints[node], "--shard", f"{node}/{NODES}", "--rounds", str(ROUNDS)]
        argv += ["--out", str(self.folder_of(node)), "--seed", str(node), "--alone", "no"]
        argv += [part for setting in SETTINGS for part in ("--set", setting)]
        self.folder_of(node).mkdir(parents=True, exist_ok=True)
        with (self.folder_of(node) / "log.txt").open("ab") as log:
            self._processes[node] = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, node: int) -> None:
        """Kill a node with SIGKILL and wait for its end."""
        self._processes[node].kill()
        self._processes[node].wait()

    def folder_of(self, node: int) -> Path:
        """Return a node's folder."""
        return self._folder / str(node)

    def resident_bytes(self, node: int) -> int:
        """Return the resident memory of a node in bytes."""
        return resident_bytes(self.pid(node), "VmRSS")

    def descriptors(self, node: int) -> int:
        """Return how many file descriptors a node has open."""
        return sum(1 for _ in Path(f"/proc/{self.pid(node)}/fd").iterdir())

    def pid(self, node: int) -> int:
        """Return the process id of a node. Raises UserError if the process has ended."""
        process = self._processes[node]
        if process.poll() is not None:
            text = (self.folder_of(node) / "log.txt").read_text("utf-8", "replace").strip().splitlines()
            raise UserError(f"node {node} ended with status {process.returncode}: {text[-1] if text else ''}")
        return process.pid

    def last_round(self, node: int) -> int:
        """Return the number of the last round that a node aggregated with others; 0 if there is none."""
        last = 0
        with suppress(FileNotFoundError), (self.folder_of(node) / "history.jsonl").open("rb") as file:
            for line in file:
                record = _record(line)
                if record.get("outcome") == "aggregated":
                    last = max(last, int(str(record.get("round", 0))))
        return last

    def is_listening(self, node: int) -> bool:
        """Return whether a node accepts connections."""
        host, _, port = self.endpoints[node].rpartition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
            return True
        return False

    def wait_rounds(self, node: int, count: int, within_s: float) -> float:
        """Return the seconds until `last_round` is `count` higher. Raises UserError after `within_s`."""
        first, begun = self.last_round(node), time.monotonic()
        while self.last_round(node) < first + count:
            self.pid(node)
            if time.monotonic() - begun > within_s:
                raise UserError(f"node {node} did not aggregate {count} rounds within {within_s:.0f} s")
            time.sleep(POLL_S)
        return time.monotonic() - begun

    def wait_listening(self, node: int, within_s: float) -> None:
        """Wait until a node accepts connections. Raises UserError after `within_s`."""
        begun = time.monotonic()
        while not self.is_listening(node):
            self.pid(node)
            if time.monotonic() - begun > within_s:
                raise UserError(f"node {node} did not listen within {within_s:.0f} s")
            time.sleep(POLL_S)


def _record(line: bytes) -> Mapping[str, object]:
    """Return a line of the history as a record; empty if the node is still writing it."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
