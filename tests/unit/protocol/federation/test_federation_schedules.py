"""Federations under seeded schedules: frames lost, doubled and reordered, nodes that die and return.

Every round ends within a bounded number of steps, and contains only what its clients learned in it.
"""

import random

import numpy as np
import pytest

from protocol.actions import Assembled, Fatal, Gathered, Send, Train
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.federation.client import FederationClient
from protocol.federation.server import FederationServer
from protocol.vectors.pieces import PIECE_WORDS
from protocol.wire import codec
from tests.parts import NOW, heard

RUN = b"r" * 32
SERVER = "127.0.0.1:7000"
NODES, CLIENTS, ROUNDS = 4, 9, 6
STEPS_A_ROUND = 3000
TRIES = 40


class Schedule:
    """One run of a federation. `faults`: how likely a frame is lost, or doubled; deaths are a tenth of it."""

    def __init__(self, seed: int, dimension: int, faults: float) -> None:
        self.random, self.faults, self.dimension = random.Random(seed), faults, dimension
        self.now = NOW
        self.server = FederationServer(RUN, dimension, NODES)
        self.nodes: dict[int, FederationClient] = {}
        self.starts = [0] * NODES
        self.frames: list[tuple[str, bytes, int]] = []
        self.ends: list[object] = []

    def run(self) -> list[Gathered]:
        self.act(self.server.open(self.now))
        for number in range(NODES):
            self.start(number)
        self.until(Assembled)
        gathered = []
        for number in range(1, ROUNDS + 1):
            if not self.server.nodes:
                self.until_one_is_here()
            chosen = sorted(self.random.sample(range(CLIENTS), 6))
            self.act(self.server.begin(number, self.model(number), chosen, self.now))
            gathered.append(self.until(Gathered))
            assert list(gathered[-1].uploads) == [c for c in chosen if c in gathered[-1].uploads]
        return gathered

    def model(self, number: int) -> np.ndarray:
        return np.full(self.dimension, 100 * number, np.float32)

    def start(self, number: int) -> None:
        self.starts[number] += 1
        instance = bytes([number, self.starts[number]]) + bytes(14)
        where = f"127.0.0.1:{7001 + number + NODES * self.starts[number]}"
        self.nodes[number] = FederationClient(RUN, self.dimension, number, instance, where, SERVER)
        self.act(self.nodes[number].open(self.now), number)

    def until(self, kind: type):
        for _ in range(STEPS_A_ROUND):
            for end in self.ends:
                assert not isinstance(end, Fatal), end
                if isinstance(end, kind):
                    self.ends.clear()
                    return end
            self.step()
        raise AssertionError(f"no {kind.__name__} within {STEPS_A_ROUND} steps")

    def until_one_is_here(self) -> None:
        for _ in range(STEPS_A_ROUND):
            if self.server.nodes:
                return
            self.step()
        raise AssertionError("no node came again")

    def step(self) -> None:
        if self.random.random() < self.faults / 10:
            self.die(self.random.randrange(NODES))
        if self.frames:
            self.deliver(*self.frames.pop(self.random.randrange(len(self.frames))))
            return
        machines = [(self.server, None), *((node, number) for number, node in self.nodes.items())]
        due = [(m.deadline, index) for index, (m, _) in enumerate(machines) if m.deadline is not None]
        when, index = min(due)
        self.now = max(self.now, when)
        machine, number = machines[index]
        self.act(machine.tick(self.now), number)

    def die(self, number: int) -> None:
        where = self.nodes[number]._enlist.endpoint
        self.frames = [frame for frame in self.frames if frame[0] != where]
        self.start(number)
        self.act(self.server.unreachable(where, "connection refused", self.now))

    def deliver(self, to: str, frame: bytes, tries: int) -> None:
        if self.random.random() < self.faults:
            return
        if self.random.random() < self.faults:
            self.frames.append((to, frame, tries))
        number = next((n for n, node in self.nodes.items() if node._enlist.endpoint == to), None)
        machine = self.server if to == SERVER else self.nodes.get(number)
        if machine is None:
            return
        try:
            self.act(heard(machine, codec.decode(frame), self.now), number)
        except TooEarly:
            if tries < TRIES:
                self.frames.append((to, frame, tries + 1))
        except RemoteProtocolError:
            pass

    def act(self, actions, number: int | None = None) -> None:
        for action in actions:
            match action:
                case Send():
                    sent = [codec.encode(message).join() for message in action.messages]
                    self.frames.extend((action.to, frame, 0) for frame in sent)
                case Train():
                    for client in action.clients:
                        upload = action.model + client
                        self.act(self.nodes[number].trained(action.round, client, upload, self.now), number)
                case _:
                    self.ends.append(action)


def learned(gathered: Gathered, dimension: int) -> None:
    for client, upload in gathered.uploads.items():
        assert np.array_equal(upload, np.full(dimension, 100 * gathered.round + client, np.float32))


@pytest.mark.parametrize("seed", range(20))
def test_every_round_ends_with_what_clients_learned_in_it(seed):
    for gathered in Schedule(seed, 5, faults=0.1).run():
        learned(gathered, 5)


@pytest.mark.parametrize("seed", range(1, 3))
def test_so_do_rounds_of_several_pieces(seed):
    dimension = PIECE_WORDS + 2
    for gathered in Schedule(seed, dimension, faults=0.05).run():
        learned(gathered, dimension)


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_missing_where_nothing_is_lost_however_it_is_reordered(seed):
    for gathered in Schedule(seed, 5, faults=0.0).run():
        learned(gathered, 5)
        assert len(gathered.uploads) == 6
