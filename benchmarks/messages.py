"""Messages: the CPU time that a node spends on the messages of a round, by parts, without training.

A swarm runs once in the simulator, which records the inputs of its nodes. Then a process of its own, which
shares no cache with other nodes, replays the record of one node. Beside the times stands a digest of all
frames that the node sent: two versions of the code with the same digest do the same.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import partial
from statistics import mean
from time import process_time
from typing import Any
from unittest.mock import patch

from benchmarks.spec import Benchmark, Figure, Row, check_counts, figure
from node.system.errors import ConfigError
from protocol.actions import Action, Reply, Send
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.crypto import node_key
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.swarm.node import Node
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.recovery.fetch import Past
from protocol.wire import codec
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Message, Sid
from scenarios.simulator.network import Network
from scenarios.simulator.peer import SimulatedPeer
from scenarios.simulator.plans import Plan, Summation

SEED = 7
LEAST_PEERS = 4
SIZES, QUICK_SIZES = (16, 24, MAX_MEMBERS), (LEAST_PEERS,)
DIMENSION = 1_000
ROUNDS, LEAST_ROUNDS = 4, 2
REPEATS = 5
LEAVE_OUT = 4
MEMBERS = 2
"""How many members are timed beside the coordinator."""
AT_MOST_MS = 120.0
PARTS = ("decode", "verify", "machine", "sign", "encode")
_INPUTS = frozenset(
    ("open", "offer", "receive", "tick", "adopted", "unreachable", "reconnected", "close", "leave")
)
"""The methods by which a node takes an input."""


@dataclass
class Record:
    """How one node began, and its inputs since: (method, values); of a message, the bytes of its frame."""

    seed: bytes
    settings: Callable[[NodeKey], Settings]
    state: NodeState
    rand: bytes
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    @property
    def node(self) -> Node:
        """A new node, as this one began."""
        return Node(self.settings(NodeKey(self.seed)), deepcopy(self.state), {}, self.rand)


@dataclass(frozen=True)
class ReplayCost:
    """The CPU seconds by (round, part), and the digest of all frames that the node sent."""

    seconds: Mapping[tuple[int, str], float]
    digest: str

    def ms(self, rounds: range, parts: tuple[str, ...] = PARTS) -> float:
        """Return the CPU milliseconds of these parts together, as a mean over these rounds."""
        return 1000 * mean(sum(self.seconds[round, part] for part in parts) for round in rounds)


class NotedNode(Node):
    """A node that records its inputs."""

    def __init__(self, settings: Settings, state: NodeState, past: Mapping[Sid, Past], rand: bytes) -> None:
        super().__init__(settings, state, past, rand)
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattribute__(self, name: str) -> Any:
        """Return the attribute. A method of `_INPUTS` records each of its calls."""
        value = super().__getattribute__(name)
        return partial(self._note, name, value) if name in _INPUTS else value

    def _note(self, name: str, call: Callable[..., list[Action]], *values: Any) -> list[Action]:
        is_message = name == "receive"
        self.calls.append((name, (codec.encode(values[0]).join(), *values[1:]) if is_message else values))
        return call(*values)


class NotedPeer(SimulatedPeer):
    """A peer whose nodes record their inputs; `record` is that of the last node."""

    def __init__(self, index: int, network: Network) -> None:
        super().__init__(index, network)
        self._seed = hashlib.sha256(f"benchmark messages {index}".encode()).digest()
        self.key = NodeKey(self._seed)

    def _node(self, settings: Settings, state: NodeState, past: Mapping[Sid, Past]) -> Node:
        rand = self.network.random.randbytes(32)
        of_key = {each.name: getattr(settings, each.name) for each in fields(Settings) if each.name != "key"}
        node = NotedNode(settings, state, past, rand)
        self.record = Record(self._seed, partial(_settings, of_key), deepcopy(state), rand, node.calls)
        return node


def _settings(of_key: Mapping[str, Any], key: NodeKey) -> Settings:
    return Settings(key=key, **of_key)


class NotedNetwork(Network):
    """A network whose nodes record their inputs."""

    def _peer(self, index: int) -> NotedPeer:
        return NotedPeer(index, self)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    sizes = ", ".join(map(str, SIZES))
    parser.add_argument("--peers", type=int, nargs="+", help=f"how many nodes (default {sizes})")
    parser.add_argument(
        "--rounds", type=int, help=f"how many rounds (default {ROUNDS}; quick {LEAST_ROUNDS})"
    )
    parser.add_argument("--repeats", type=int, help=f"timings of each node (default {REPEATS}; quick 1)")


def run(arguments: argparse.Namespace) -> Iterator[Figure | Row]:
    """Yield, for each size, times of the coordinator and of members, and digests of what they sent."""
    sizes, rounds, repeats = (QUICK_SIZES, LEAST_ROUNDS, 1) if arguments.quick else (SIZES, ROUNDS, REPEATS)
    sizes = sizes if arguments.peers is None else tuple(arguments.peers)
    rounds = rounds if arguments.rounds is None else arguments.rounds
    repeats = repeats if arguments.repeats is None else arguments.repeats
    for count in sizes:
        if not LEAST_PEERS <= count <= MAX_MEMBERS:
            raise ConfigError(f"--peers {count}: allowed are {LEAST_PEERS} to {MAX_MEMBERS}")
    if rounds < LEAST_ROUNDS:
        raise ConfigError(f"--rounds {rounds}: allowed are {LEAST_ROUNDS} and more (the first has the start)")
    check_counts(arguments, "repeats")
    return (found for count in sizes for found in _figures(count, rounds, repeats))


def _figures(peers: int, rounds: int, repeats: int) -> Iterator[Figure | Row]:
    coordinator, *members = records(peers, rounds)
    for role, of_role in (("coordinator", [coordinator]), ("member", members)):
        taken = [_replay_apart(record) for _ in range(repeats) for record in of_role]
        case, later = f"n={peers}, {role}", range(1, rounds)
        at_most = AT_MOST_MS if peers == MAX_MEMBERS else None
        yield figure("messages", case, "a round", "ms of CPU", [one.ms(later) for one in taken], at_most)
        for part in PARTS:
            yield figure("messages", case, part, "ms of CPU", [one.ms(later, (part,)) for one in taken])
        yield figure(
            "messages", case, "the start and a round", "ms of CPU", [one.ms(range(1)) for one in taken]
        )
        yield Row(f"{case:24} sent {' '.join(sorted({one.digest for one in taken}))}")


def records(peers: int, rounds: int) -> tuple[Record, ...]:
    """Run a swarm; return the record of the coordinator, then those of MEMBERS others."""
    network = NotedNetwork(
        Plan(
            aggregation=Summation(masked=MaskedSettings(4.0, None), dimension=DIMENSION, leave_out=LEAVE_OUT),
            peers=peers,
            rounds=rounds,
        ),
        SEED,
    )
    network.run(step_budget=10_000_000)
    noted = [peer for peer in network.peers if isinstance(peer, NotedPeer)]
    made_by = noted[0].disk.state.line.whole[-1].group.coordinator
    noted.sort(key=lambda peer: (peer.key.public != made_by, peer.index))
    return tuple(peer.record for peer in noted[: 1 + MEMBERS])


def _replay_apart(record: Record) -> ReplayCost:
    """Replay a record in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(replay, record).result()


class Stopwatch:
    """Adds up the CPU time of calls by (round, part), without that of timed calls within them."""

    def __init__(self, clock: Callable[[], float] = process_time) -> None:
        self._clock = clock
        self.seconds: defaultdict[tuple[int, str], float] = defaultdict(float)
        self.round = 0
        self._inner_s = 0.0
        """Seconds of the timed calls that ended within the running one."""

    def timed_call(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` with its time counted for `part`, in the round that is current when it runs."""

        def within(*values: Any) -> Any:
            outer_s, self._inner_s, begun_s = self._inner_s, 0.0, self._clock()
            try:
                return call(*values)
            finally:
                took_s = self._clock() - begun_s
                self.seconds[self.round, part] += took_s - self._inner_s
                self._inner_s = outer_s + took_s

        return within


def replay(record: Record) -> ReplayCost:
    """Give all inputs of a record to a new node; return what they cost, and the digest of what it sent."""
    watch = Stopwatch()
    verify, sign = watch.timed_call("verify", node_key.verify), watch.timed_call("sign", NodeKey.sign)
    with patch.object(node_key, "verify", verify), patch.object(NodeKey, "sign", sign):
        return ReplayCost(watch.seconds, _feed(record, watch))


def _feed(record: Record, watch: Stopwatch) -> str:
    node, sent = record.node, hashlib.sha256()
    decode, encode = watch.timed_call("decode", codec.decode), watch.timed_call("encode", _Encoder())
    enter = watch.timed_call(
        "machine", lambda name, *values: (getattr(node, name)(*values), node.deadline)[0]
    )
    offers = 0
    for name, values in record.calls:
        offers += name == "offer"
        watch.round = max(0, offers - 1)
        try:
            actions = enter(name, *((decode(values[0]), *values[1:]) if name == "receive" else values))
        except RemoteProtocolError:
            continue
        for action in actions:
            if isinstance(action, Send | Reply):
                for frame in encode(action):
                    sent.update(frame.head + bytes(frame.payload))
    return sent.hexdigest()[:16]


class _Encoder:
    """Encodes the messages of actions. It encodes a message to several peers once, as a node does."""

    def __init__(self) -> None:
        self._last: tuple[Message, codec.Frame] | None = None

    def __call__(self, action: Send | Reply) -> list[codec.Frame]:
        """Return the frame of each message of an action."""
        return [self._frame(message) for message in action.messages]

    def _frame(self, message: Message) -> codec.Frame:
        if self._last is None or self._last[0] is not message:
            self._last = message, codec.encode(message)
        return self._last[1]


MESSAGES = Benchmark(add_options, run)
