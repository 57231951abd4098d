"""A swarm on the digits: its nodes, their answers while they run, and the files that they leave."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from protocol.crypto.node_key import NodeKey
from tests.e2e.dying_peer import Orders
from tests.e2e.processes import Event, Nursery, Process, free_endpoint
from tests.patience import ENOUGH_S

ADDITIVE, MASKED = "aggregation.protocol=additive", "aggregation.protocol=masked"
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,16,10]")


def settings(*overrides: str) -> list[str]:
    """Returns --set options for these settings."""
    return [part for override in overrides for part in ("--set", override)]


@dataclass
class Swarm:
    """`count` nodes on the digits, in the order of their keys: number 0 coordinates."""

    nursery: Nursery
    folder: Path
    count: int
    rounds: int
    overrides: tuple[str, ...] = ()
    tracker: str | None = None
    listed: int | None = None
    """How many nodes --peers names; None: all."""
    usual: tuple[str, ...] = SMALL
    """Settings that make a run short; `overrides` come after them."""
    waiting: bool = False
    """Whether no round is done without all, and no node begins before all are there."""

    def __post_init__(self) -> None:
        seeds = sorted((os.urandom(32) for _ in range(self.count)), key=lambda seed: NodeKey(seed).public)
        self.keys = [NodeKey(seed).public for seed in seeds]
        self.endpoints = [free_endpoint() for _ in seeds]
        for number, seed in enumerate(seeds):
            write_key(self.out(number) / "node.key", seed)
        self.nodes: list[Process] = []

    def out(self, number: int) -> Path:
        return self.folder / str(number)

    def argv(self, number: int, *more: str) -> list[str]:
        """Returns all arguments after `python -m node`."""
        peers = ",".join(self.endpoints[: self.listed])
        where = ["--tracker", f"http://{self.tracker}"] if self.tracker else ["--peers", peers]
        what = ["--shard", f"{number}/{self.count}", "--rounds", str(self.rounds), "--json"]
        mine = ["--listen", self.endpoints[number], "--out", str(self.out(number))]
        sets = settings(*self.usual, *self.overrides)
        if self.waiting:
            sets += ["--wait", "forever", *settings(f"aggregation.min_participants={self.count}")]
        return [*where, *what, *mine, *sets, *more]

    def start(self, number: int, *more: str, orders: Orders | None = None) -> Process:
        return self.nursery.fork(*self.argv(number, *more), orders=orders)

    def start_in(self, number: int, namespace: str) -> Process:
        """Starts a node in a namespace; anyone who reaches it may join."""
        return self.start(number, "--open", orders=Orders(namespace=namespace))

    def start_all(self, orders: dict[int, Orders] | None = None) -> list[Process]:
        """Starts all nodes; `orders` by number."""
        self.nodes = [self.start(number, orders=(orders or {}).get(number)) for number in range(self.count)]
        return self.nodes

    def status(self, number: int) -> Event:
        return status(self.endpoints[number])

    def wait_status(self, number: int, fits: Callable[[Event], bool]) -> Event:
        return wait_status(self.endpoints[number], fits)


def write_key(path: Path, seed: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(seed.hex() + "\n")


def get(
    endpoint: str, path: str, headers: Mapping[str, str] = MappingProxyType({}), *, tls: bool = False
) -> tuple[int, bytes]:
    host, _, port = endpoint.rpartition(":")
    if tls:  # nobody signs a node's certificate but its own key: see tests/unit/node/net/test_tls.py
        trusting = ssl._create_unverified_context()
        asked: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, int(port), timeout=ENOUGH_S, context=trusting
        )
    else:
        asked = http.client.HTTPConnection(host, int(port), timeout=ENOUGH_S)
    with closing(asked) as connection:
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()


def status(endpoint: str) -> Event:
    """Returns the answer to GET /v1/status."""
    code, body = get(endpoint, "/v1/status")
    assert code == 200
    said: Event = json.loads(body)
    return said


def wait_status(endpoint: str, fits: Callable[[Event], bool]) -> Event:
    """Requests the status until it fits."""
    deadline, between = time.monotonic() + ENOUGH_S, threading.Event()
    said: Event = {}
    while True:
        with suppress(OSError, http.client.HTTPException):
            said = status(endpoint)
            if fits(said):
                return said
        assert time.monotonic() < deadline, f"the status that was waited for never came: {said}"
        between.wait(0.02)


@contextmanager
def frozen(nodes: Sequence[Process]) -> Iterator[None]:
    """Stops all nodes in the context, so that they do not reach their last round before something is done.

    A node that comes back in the meantime has begun to dial them once it reports that it trains.
    """
    for node in nodes:
        node.send(signal.SIGSTOP)
    try:
        yield
    finally:
        for node in nodes:
            node.send(signal.SIGCONT)


def one_digest(ends: Sequence[Event]) -> str:
    """Returns the base digest that all these summaries name."""
    digests = {end["base_digest"] for end in ends}
    assert len(digests) == 1, ends
    return digests.pop()
