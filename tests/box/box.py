"""A box: several whole nodes in one event loop under virtual time, with streams, disks and clocks of the box.

    box = Box(seed=7, folder=tmp_path, count=5, rounds=3)
    with box:
        box.start_all()
        box.run(until=lambda: box.all_ended)

Every node is the product's own: engine, shell, protocol, state on disk, transport, doors, aiohttp's server
and client, TLS. Only its computer (`node.system`) is the box's. All that happens follows from the seed;
`trace` holds it: messages, decisions, disk steps.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from node.app.run import Prepared, opened, prepared_on
from node.app.signals import until_over
from node.data.dataset import Dataset, load_dataset
from node.observe.lines import event_texts
from node.options import NodeOptions, parse_arguments
from node.relay.word_file import file_beside, own_word
from node.runtime.engine import Engine
from node.runtime.record.events import NodeEvent, RoundEnded
from node.runtime.record.figures import Record
from node.storage.swarm_file import Own, Swarm, read_swarm, write_swarm
from node.storage.vector_files import Floats
from node.system.clock import Clock
from node.system.errors import UserError, refusal
from node.system.system import System
from node.tracker.options import parse_arguments as parse_tracker
from node.tracker.serve import live as live_tracker
from protocol.crypto.node_key import NodeKey
from protocol.invitation.roster import Member, Roster, close_list, vouch_for
from protocol.invitation.sealed import NONCE_BYTES
from protocol.relay.admission import Licences, Relay
from protocol.wire import codec
from protocol.wire.endpoints import of_key
from protocol.wire.limits import VERSION
from protocol.wire.messages import Base, Message
from tests import run_folders
from tests.box.disk import BoxDisk, Files, Killed
from tests.box.loop import Life, Stuck, VirtualLoop
from tests.box.network import FIRST_PORT, HOST, MemoryStreams, Network
from tests.signatures import known_if_made_here

EPOCH_S = 1_700_000_000.0
ROWS = 16
"""Training and test rows of each node."""
SMALL = (
    "train.epochs=1",
    "train.batch_size=16",
    "train.threads=1",
    "model.args.sizes=[64,2,10]",
)
"""Settings that make training cheap; a box tests order and time."""
STEPS = ("privacy.mechanism=distributed-dp-sgd", *SMALL[2:])
"""The same for steps with shared noise."""


@dataclass
class Hook:
    """Calls `act` once, before the `nth` event that fits."""

    fits: Callable[..., bool]
    nth: int
    act: Callable[[], None]


class Hooks:
    """What is to happen before certain events of one kind."""

    def __init__(self) -> None:
        self._hooks: list[Hook] = []

    def add(self, act: Callable[[], None], fits: Callable[..., bool], nth: int) -> None:
        self._hooks.append(Hook(fits, nth, act))

    def before(self, *event: object) -> None:
        """Counts one event and acts where that is due."""
        for hook in [hook for hook in self._hooks if hook.fits(*event)]:
            hook.nth -= 1
            if hook.nth == 0:
                self._hooks.remove(hook)
                hook.act()


Rows = Callable[[NodeOptions], Dataset]
Prepare = Callable[[NodeOptions, System], Prepared]


def own_rows(options: NodeOptions) -> Dataset:
    """Returns the rows that a node's options name, as they are."""
    return load_dataset(options.task, options.data, options.shard)


def few_digits(options: NodeOptions) -> Dataset:
    """Returns the first rows of a node's part of the digits."""
    assert options.shard is not None
    return _few_digits(*options.shard)


@functools.cache
def _few_digits(part: int, parts: int) -> Dataset:
    options = parse_arguments(["--peers", "127.0.0.1:1", "--shard", f"{part}/{parts}"])
    whole = own_rows(options)
    return replace(
        whole,
        train_x=whole.train_x[:ROWS],
        train_y=whole.train_y[:ROWS],
        test_x=whole.test_x[:ROWS],
        test_y=whole.test_y[:ROWS],
    )


class BoxNode:
    """A node of the box over all its lives."""

    def __init__(self, box: Box, number: int, key: NodeKey, key_seed: bytes) -> None:
        self.box, self.number, self.key = box, number, key
        self.folder = box.folder / str(number)
        self.disk = BoxDisk(self.folder, self._at_disk, self._committed)
        self._messages, self._disk_steps, self._said, self._happened = Hooks(), Hooks(), Hooks(), Hooks()
        self.skew_s = 0.0
        """By how much its wall clock is wrong."""
        self.version = VERSION
        """The version of the protocol that its links speak from its next start on."""
        self.life: Life | None = None
        self.engine: Engine | None = None
        """Its engine while it runs."""
        self.prepared: Prepared | None = None
        self.agreed: tuple[Base, Floats] | None = None
        """The base and its vector at the end of its last life that ended by itself."""
        self.status: int | None = None
        """The exit status of its last life that ended by itself."""
        self.lines: list[str] = []
        """What it has said, over all lives; an error begins with `error:`."""
        self.events: list[NodeEvent] = []
        self.lives = 0
        self._left: Files | None = None
        self._main: asyncio.Task[None] | None = None
        self.folder.mkdir(parents=True)
        file = self.folder / "node.key"
        file.write_text(key_seed.hex() + "\n")
        file.chmod(0o600)
        self.disk.restore(self.disk.written())

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{FIRST_PORT + self.number}"

    @property
    def name(self) -> str:
        """How others call it, if it was invited."""
        return f"site {self.number}"

    @property
    def is_up(self) -> bool:
        return self.life is not None and not self.life.is_dead

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs, not even what a kill left to be cleaned up."""
        return self.life is None

    @property
    def records(self) -> list[Record]:
        """The rounds that it reported, over all lives."""
        return [event.record for event in self.events if isinstance(event, RoundEnded)]

    @property
    def history(self) -> list[dict[str, Any]]:
        return run_folders.history(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        return run_folders.summary(self.folder)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Reads its database as the file is now."""
        return run_folders.rows(self.folder, query)

    def fact(self, name: str) -> Any:
        """Reads a small fact from its database."""
        return run_folders.fact(self.folder, name)

    # -- life --------------------------------------------------------------------------------------

    def start(self, *more: str) -> None:
        """Starts the node, with more options; after a kill with what that left on its disk."""
        assert self.is_over, f"node {self.number} still runs"
        self.lives += 1
        self.status = None
        self.life = Life(self.box.loop, f"node {self.number}, life {self.lives}")
        self._main = self.life.begin(self._live(self.life, more))
        self._main.add_done_callback(self._has_ended)
        self.box.note(self.number, "start", " ".join(more))

    async def _live(self, life: Life, more: Iterable[str]) -> None:
        address = self.box.network.bind(self.number)
        try:
            options = self.box.options(self.number, *more)
            self.prepared = prepared = self.box.prepare(options, self._system(life))
            with opened(prepared, address, self) as run:
                self.status = await run(self._run, 0.0)
        except Exception as error:  # as node.cli.error_handling does
            line = str(error) if isinstance(error, UserError) else refusal(error)
            if line is None:
                raise
            self.status = error.status if isinstance(error, UserError) else 1
            self._say(f"error: {line}")

    async def _run(self, engine: Engine, _: object) -> None:
        self.engine = engine
        self.box.look()
        await until_over(engine)
        self.agreed = engine.agreed

    def _has_ended(self, main: asyncio.Task[None]) -> None:
        was_killed = self.life is not None and self.life.is_dead
        error = None if main.cancelled() else main.exception()
        self.life = self.engine = self._main = None
        if self._left is not None:
            self.disk.restore(self._left)
            self._left = None
        self.box.note(self.number, "end", "killed" if was_killed else f"status {self.status}")
        if not was_killed and (main.cancelled() or error is not None):
            self.box.broken(f"node {self.number} ended with {error!r}")

    def _system(self, life: Life) -> System:
        loop, rng = self.box.loop, random.Random(f"{self.box.seed} {self.number} {self.lives}")
        return System(
            clock=Clock(loop.clock, lambda: loop.clock() + EPOCH_S + self.skew_s, loop.clock),
            disk=self.disk,
            streams=MemoryStreams(self.box.network, self.number),
            entropy=rng.randbytes,
            tap=functools.partial(self._at_message, life),
            version=self.version,
        )

    # -- what a test asks for ----------------------------------------------------------------------

    def before_message(
        self,
        act: Callable[[], None],
        way: str,
        kind: type[Message] | tuple[type[Message], ...],
        nth: int = 1,
        fits: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        """Calls `act` before the node sends (`out`) or handles (`in`) the nth such message from now on.

        Either counts if `way` is `any`.
        """
        self._messages.add(
            act, lambda went, sent: way in (went, "any") and isinstance(sent, kind) and fits(sent), nth
        )

    def before_disk_step(
        self, act: Callable[[], None], nth: int = 1, fits: Callable[[str, Path], bool] = lambda *_: True
    ) -> None:
        """Calls `act` before the nth wait for the disk from now on: `sync` or `commit`, and the path."""
        self._disk_steps.add(act, fits, nth)

    def before_step(self, act: Callable[[], None], steps: int) -> None:
        """Calls `act` before one of the next callbacks of this life: between any two awaits."""
        assert self.life is not None
        self.life.at_step[self.life.steps + steps] = act

    def when_it_says(self, act: Callable[[], None], text: str, nth: int = 1) -> None:
        """Calls `act` when the node says a line with this text for the nth time from now on."""
        self._said.add(act, lambda line: text in line, nth)

    def when(self, act: Callable[[], None], kind: type[NodeEvent], nth: int = 1) -> None:
        """Calls `act` at the node's nth event of this kind from now on."""
        self._happened.add(act, lambda event: isinstance(event, kind), nth)

    def has_said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def has_aggregated(self, rounds: int = 1, participants: int = 0) -> bool:
        """Returns whether so many rounds of it were aggregated, over all lives, with so many at least."""
        whole = [one for one in self.records if one.reason is None and one.participants >= participants]
        return len(whole) >= rounds

    def tell_to_end(self, within_s: float = 30.0) -> None:
        """Does what the first SIGTERM does."""
        assert self.engine is not None
        assert self.life is not None
        self.life.context.copy().run(self.box.loop.create_task, self.engine.drain(within_s))

    def pause(self) -> None:
        """Does what SIGSTOP does, if it runs."""
        if self.life is not None:
            self.life.pause()

    def go_on(self) -> None:
        """Does what SIGCONT does, if it runs."""
        if self.life is not None:
            self.life.go_on()

    def kill(self, *, power: bool = False) -> None:
        """Kills the process with SIGKILL; with `power`, its computer loses what it had not synced."""
        if self.life is None or self.life.is_dead:
            return
        self.box.note(self.number, "kill", "power" if power else "")
        self._left = self.disk.on_disk(self.box.rng) if power else self.disk.written()
        self.disk.is_frozen = True
        self.box.network.reset(self.life, silently=power)
        self.life.cancel()

    # -- what happens ------------------------------------------------------------------------------

    def handle(self, event: NodeEvent) -> None:
        """Observes the node's events (node.runtime.record.events)."""
        if self.disk.is_frozen:
            return
        self.events.append(event)
        self._happened.before(event)
        for text in event_texts(event):
            self._say(text)
        self.box.look()

    def _say(self, text: str) -> None:
        self.lines.append(text)
        self._said.before(text)
        self.box.note(self.number, "said", text.replace(str(self.folder), "OUT")[:60])

    def _at_message(self, life: Life, way: str, message: Message) -> None:
        if life.is_dead:
            raise Killed
        self._messages.before(way, message)
        if life.is_dead:
            raise Killed
        frame = codec.encode(message).join()
        self.box.note(self.number, way, f"{type(message).__name__} {hashlib.sha256(frame).hexdigest()[:8]}")
        self.box.saw(self, way, message)

    def _at_disk(self, what: str, path: Path) -> None:
        self._disk_steps.before(what, path)
        if self.disk.is_frozen:
            raise Killed
        name = path.name if not path.name.startswith(".") else path.name.rpartition(".")[0]
        self.box.note(self.number, what, name)
        self.box.look()

    def _committed(self, connection: sqlite3.Connection, durable: bool) -> None:
        for watcher in self.box.watchers if self in self.box.honest else ():
            watcher.committed(self.box, self, connection, durable)


class BoxTracker:
    """A tracker of the box, over all its lives. It keeps its folder as kill -9 leaves it."""

    def __init__(
        self, box: Box, options: tuple[str, ...], skew_s: float = 0.0, number: int | None = None
    ) -> None:
        """`number`: its place in the network; None: behind all nodes."""
        self.box, self.skew_s, self.number = box, skew_s, box.count if number is None else number
        self.name = "tracker" if number is None else f"relay {number - box.count}"
        self.life: Life | None = None
        self.lives = 0
        self._stop: Callable[[], None] = lambda: None
        file = box.folder / self.name / "tracker.key"
        self.options = parse_tracker(["--listen", self.endpoint, "--key", str(file), *options])
        self.key = NodeKey(random.Random(f"{box.seed} {self.name}").randbytes(32))

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{FIRST_PORT + self.number}"

    def as_relay(self, inviter: NodeKey) -> Relay:
        """Returns what a list of members says of it."""
        self.options.key.parent.mkdir(parents=True, exist_ok=True)
        drawn = System(entropy=random.Random(f"{self.box.seed} {self.name} word").randbytes)
        word = own_word(file_beside(self.options.key), drawn)
        return Relay(self.endpoint, self.key.public, Licences(self.key, word).give(inviter.public))

    @property
    def is_over(self) -> bool:
        return self.life is None

    def start(self) -> None:
        self.lives += 1
        loop, rng = self.box.loop, random.Random(f"{self.box.seed} {self.name} {self.lives}")
        self.options.key.parent.mkdir(parents=True, exist_ok=True)
        life = self.life = Life(loop, f"the {self.name}, life {self.lives}")
        system = System(
            clock=Clock(loop.time, lambda: loop.time() + EPOCH_S + self.skew_s, loop.time),
            streams=MemoryStreams(self.box.network, self.number),
            entropy=rng.randbytes,
            tap=self._at_message,
        )
        address = self.box.network.bind(self.number)
        main = life.begin(live_tracker(self.options, self.key, None, address, self._told, system))
        main.add_done_callback(self._has_ended)

    def _told(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def _at_message(self, way: str, message: Message) -> None:
        self.box.note(self.number, way, type(message).__name__)

    def _has_ended(self, main: asyncio.Task[int]) -> None:
        was_killed = self.life is not None and self.life.is_dead
        self.life = None
        if not was_killed and (main.cancelled() or main.exception() is not None):
            self.box.broken(f"the {self.name} ended with {main.exception()!r}")

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        if self.life is not None and not self.life.is_dead:
            self.box.note(self.number, "kill", "")
            self.box.network.reset(self.life, silently=False)
            self.life.cancel()


class Box:
    """`count` nodes, in the order of their keys: number 0 coordinates."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        count: int,
        rounds: int,
        *overrides: str,
        options: tuple[str, ...] = (),
        rows: Rows = few_digits,
        usual: tuple[str, ...] = SMALL,
        prepare: Prepare | None = None,
        own: Callable[[int], tuple[str, ...]] | None = None,
    ) -> None:
        """`overrides`: --set options after `usual`, `options`: others; `rows` gives a node its rows.

        `prepare` makes it another kind of node, and `own` gives it the options that name its rows.
        """
        self.seed, self.folder, self.count, self.rounds = seed, folder, count, rounds
        self.rng = random.Random(seed)
        self.loop = VirtualLoop()
        self.network = Network(self.loop, seed)
        self._outside = copy_context()
        self._signatures = known_if_made_here()
        self.trace: list[str] = []
        self.faults: list[str] = []
        """What must never be: broken invariants, and errors that nobody caught."""
        self.watchers: list[Watcher] = []
        self.tracker: BoxTracker | None = None
        """Where nodes meet if a test has made one; else they name each other."""
        self.relays: list[BoxTracker] = []
        self._roster: Roster | None = None
        """The list of all nodes, if they reach each other by relays."""
        self._sets = [part for one in (*usual, *overrides) for part in ("--set", one)]
        self.prepare = prepare or (lambda options, system: prepared_on(options, rows(options), system))
        self._own = own or (lambda number: ("--shard", f"{number}/{count}"))
        self._more = options
        keys = random.Random(f"{seed} keys")
        seeds = sorted((keys.randbytes(32) for _ in range(count)), key=lambda one: NodeKey(one).public)
        self.nodes = [BoxNode(self, number, NodeKey(one), one) for number, one in enumerate(seeds)]
        self.honest = self.nodes
        """The nodes that the watchers see: all but one that lies."""

    def options(self, number: int, *more: str) -> NodeOptions:
        """Returns a node's options, as its command line gives them: the first group is as any other."""
        node = self.nodes[number]
        if self._roster is not None:
            return self._invited(node, *more)
        peers = ["--peers", ",".join(node.endpoint for node in self.nodes)]
        there = peers if self.tracker is None else ["--tracker", f"http://{self.tracker.endpoint}"]
        where = [*there, "--listen", node.endpoint, "--out", str(node.folder)]
        return parse_arguments([*where, "--wait", "0", *self._what(number), *more])

    def _invited(self, node: BoxNode, *more: str) -> NodeOptions:
        """Returns the options of a member of a list, as `murmuration start` makes them."""
        swarm = read_swarm(node.folder)
        keys = swarm.learned_with
        peers = ["--peers", ",".join(f"{key.hex()}@{of_key(key)}" for key in keys)]
        where = [*peers, "--wait", "forever", "--out", str(node.folder)]
        options = parse_arguments([*where, *self._what(node.number), *more])
        return replace(options, swarm=swarm, swarm_folder=node.folder)

    def _what(self, number: int) -> list[str]:
        return [*self._own(number), "--rounds", str(self.rounds), "--json", *self._sets, *self._more]

    def out(self, number: int) -> Path:
        """Returns a node's folder."""
        return self.nodes[number].folder

    def with_tracker(self, *options: str, skew_s: float = 0.0) -> BoxTracker:
        """Starts a tracker, through which all nodes meet."""
        self.tracker = BoxTracker(self, options, skew_s)
        self.tracker.start()
        return self.tracker

    def with_relays(self, count: int = 1, late: Sequence[int] = ()) -> list[BoxTracker]:
        """Starts relays, by which all nodes reach each other: the first has invited all but the `late`."""
        self.relays = [
            BoxTracker(self, ("--relay", "--tls", "on"), number=self.count + one) for one in range(count)
        ]
        for relay in self.relays:
            relay.start()
        inviter = self.nodes[0].key
        first = [node for node in self.nodes if node.number not in late]
        members = [Member(node.name, node.key.public) for node in first]
        relays = tuple(relay.as_relay(inviter) for relay in self.relays)
        self._roster = close_list(inviter, members, b"", relays, bytes(NONCE_BYTES))
        for node in first:
            write_swarm(node.folder, Swarm(self._roster, Own("rows")), node.disk)
        return self.relays

    def invite(self, late: BoxNode, by: BoxNode) -> None:
        """A member invites a later one, as `murmuration invite FOLDER` does; both ends keep its word."""
        swarm = read_swarm(by.folder)
        swarm = swarm.with_word(vouch_for(by.key, swarm.roster, Member(late.name, late.key.public)))
        write_swarm(late.folder, swarm, late.disk)
        write_swarm(by.folder, swarm, by.disk)

    def __enter__(self) -> Box:
        self._signatures.__enter__()
        asyncio.set_event_loop(self.loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        everybody = [*self.nodes, *self.relays, *([self.tracker] if self.tracker else [])]
        for one in everybody:
            one.kill()
        self.run(lambda: all(one.is_over for one in everybody), within_s=600.0)
        for node in self.nodes:
            node.disk.release()
        asyncio.set_event_loop(None)
        self.loop.close()
        self._signatures.__exit__(None, None, None)

    def start_all(self, *more: str) -> None:
        for node in self.nodes:
            node.start(*more)

    @property
    def all_ended(self) -> bool:
        return all(node.is_over for node in self.nodes)

    def run(self, until: Callable[[], bool], within_s: float = 3600.0) -> None:
        """Runs the box until something holds; AssertionError if that takes longer in virtual time."""
        end_s = self.loop.time() + within_s
        timer = self.loop.call_at(end_s, lambda: None)

        def over() -> bool:
            self._check_errors()
            return until() or self.loop.time() >= end_s

        try:
            self.loop.run_until(over)
        except Stuck as stuck:
            raise AssertionError(f"{stuck}:\n{self.told()}") from stuck
        timer.cancel()
        assert until(), f"not within {within_s:g} s of the box:\n{self.told()}"

    def run_to_the_end(self, within_s: float = 3600.0) -> None:
        """Runs the box until all nodes have ended."""
        self.run(lambda: self.all_ended, within_s)

    def run_for(self, seconds: float) -> None:
        """Lets so much time pass."""
        end_s = self.loop.time() + seconds
        self.loop.call_at(end_s, lambda: None)
        self.run(lambda: self.loop.time() >= end_s, within_s=seconds + 1.0)

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Does something so many seconds from now, whoever is stopped or dead by then."""
        self.loop.call_at(self.loop.time() + seconds, act, context=self._outside.copy())

    def _check_errors(self) -> None:
        for life, what in self.loop.errors:
            if life is None or not life.is_dead:
                self.broken(
                    f"{life.name if life else 'the box'}: {what.get('message')}: {what.get('exception')!r}"
                )
        self.loop.errors.clear()

    # -- what happened -----------------------------------------------------------------------------

    def note(self, number: int, what: str, text: str) -> None:
        self.trace.append(f"{self.loop.time():.6f} {number} {what} {text}")

    def look(self) -> None:
        """Lets the watchers look at all nodes, as after every event."""
        for watcher in self.watchers:
            watcher.look(self)

    def saw(self, node: BoxNode, way: str, message: Message) -> None:
        for watcher in self.watchers if node in self.honest else ():
            watcher.saw(self, node, way, message)

    def broken(self, what: str) -> None:
        """Notes what must never be."""
        if what not in self.faults:
            self.faults.append(what)
            self.trace.append(f"{self.loop.time():.6f} - BROKEN {what}")

    def told(self, last: int = 40) -> str:
        """Returns the end of the trace, with the seed that makes it again."""
        return "\n".join([f"seed {self.seed}", *self.faults, *self.trace[-last:]])


class Watcher:
    """Looks at the nodes after every event."""

    def look(self, box: Box) -> None:
        """Something has happened: an event of a node, or a disk step."""

    def committed(self, box: Box, node: BoxNode, connection: sqlite3.Connection, durable: bool) -> None:
        """A node has ended a transaction of its database, which is on disk now if it is `durable`."""

    def saw(self, box: Box, node: BoxNode, way: str, message: Message) -> None:
        """A node is about to send a message (`out`), or has received one (`in`)."""
