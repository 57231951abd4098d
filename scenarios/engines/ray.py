"""Engine `ray`: calls as tasks of a Ray cluster, and blocks of clients inside them as tasks of their own.

    driver: data sets ──put──▶ object store ──▶ replayed ──put──▶ ClientWork ──▶ train_block, block by block

Cells are spread over the machines. A cell with a server waits for its blocks, which take one core each; a
cell of any other kind, such as a whole swarm of peers, is one task that takes one core of one machine.
The driver loads the data, so the machines of a cluster need no data folder. Blocks are the same as in engine
`inline`; a task with one core trains each in one thread, so both engines give the same figures, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from mechanisms.noise.clipping import Floats
from mechanisms.servers.server import Indices, Sent
from scenarios.clients.work import ClientWork, Crew, FederatedArm
from scenarios.data.criteo import Criteo
from scenarios.data.dataset import FederatedDataset
from scenarios.data.own import DataName
from scenarios.engines.choice import RaySection
from scenarios.engines.clock import clocked
from scenarios.engines.engine import CellWatch, Place, SweepDisplay, call_of
from scenarios.engines.ray_cluster import connected
from scenarios.engines.ray_news import News
from scenarios.engines.room import LocalRoom
from scenarios.federated.rounds import in_order, remembered, train_block
from scenarios.frame.work import POLL_S, Call, Say, Watch, one_line
from scenarios.study.cells import Cell, Outcome
from scenarios.study.threads import one_thread

Ref = Any  # ray.ObjectRef, or ClientObjectRef of Ray's client


@dataclass(frozen=True)
class RayEngine:
    """An engine that runs `jobs` cells at a time; None: as many as the cluster has cores."""

    jobs: int | None
    section: RaySection

    def run(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        """See Engine.run."""
        shipped = Shipped(LocalRoom(place.data_dir))
        with connected(self.section.address, self.section.working_dir, self.jobs) as at_once:
            # One by one, so that a cell's data sets are shipped when it starts.
            calls = (
                call_of(
                    cell,
                    place,
                    "scenarios.engines.ray:replayed",
                    {name: shipped.ref(name, cell.seed) for name in cell.data_sets},
                    place.data_dir,
                    cores=own_cores(cell),
                )
                for cell in cells
            )
            do_in_cluster(calls, CellWatch(cells, place, display), at_once)


class Shipped:
    """The data sets in the object store."""

    def __init__(self, library: LocalRoom) -> None:
        self._library = library
        self._refs: dict[tuple[DataName, int], Ref] = {}

    def ref(self, name: DataName, seed: int) -> Ref:
        """The data set of that name, shipped once. A new one releases the earlier ones."""
        if (name, seed) not in self._refs:
            self._refs.clear()
            self._refs[name, seed] = ray.put(self._library.either(name, seed))
        return self._refs[name, seed]


def own_cores(cell: Cell) -> int:
    """The cores of a cell's task: none if it only waits for the blocks of its clients."""
    return 0 if isinstance(cell, FederatedArm) else 1


def do_in_cluster(calls: Iterable[Call], watch: Watch, at_once: int) -> None:
    """Make the calls as tasks, `at_once` side by side; see frame.work.Do. The others are cancelled."""
    news: Any = ray.remote(num_cpus=0)(News).remote()
    task, waiting, running = ray.remote(made), iter(calls), dict[Ref, Call]()
    try:
        while True:
            while len(running) < at_once and (call := next(waiting, None)):
                options = task.options(num_cpus=call.cores, scheduling_strategy="SPREAD")
                running[options.remote(call, news)] = call
            if not running:
                return
            ended, _ = ray.wait(list(running), timeout=POLL_S)
            told: list[tuple[Path, int, float]] = ray.get(news.taken.remote())
            by_path = {call.path: call for call in running.values()}
            for path, number, figure in told:
                if path in by_path:
                    watch.round_ended(by_path[path], number, figure)
            for ref in ended:
                call = running.pop(ref)
                with one_line(call.name, call.log):
                    call.keep(got(ref))
                watch.call_ended(call)
    finally:
        for ref in running:
            ray.cancel(ref)


def got(ref: Ref | Sequence[Ref]) -> Any:
    """Return the result of a task, or raise its exception."""
    try:
        return ray.get(ref)
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise


# -- in the cluster ----------------------------------------------------------------------------------------


def made(call: Call, news: Any) -> Any:
    """Make a call, as a task; return its result, once all that the call tells is with `news`."""
    last: Ref | None = None

    def tell(number: int, figure: float) -> None:
        nonlocal last
        last = news.told.remote((call.path, number, figure))

    result = call.result(tell)
    if last is not None:
        ray.get(last)  # else the driver may have the result before the last news, and show them to nobody
    return result


def replayed(cell: Cell, data: Mapping[DataName, Ref], data_dir: Path, say: Say) -> Outcome:
    """Replay a cell, whose blocks of clients are tasks of their own; a function of a Call."""
    with one_thread():
        return clocked(lambda tell: cell.replay(RayRoom(data_dir, data, tell)), say)


@dataclass(frozen=True)
class RayRoom:
    """A room for a cell in a task."""

    data_dir: Path
    data: Mapping[DataName, Ref]
    say: Say

    def dataset(self, name: DataName, seed: int) -> FederatedDataset:
        """See Room.dataset; it comes from the object store and is therefore read-only."""
        shipped: FederatedDataset = got(self.data[name])
        # These become torch tensors, and torch warns about read-only memory.
        return replace(shipped, test_x=shipped.test_x.copy(), test_y=shipped.test_y.copy())

    def vertical(self, name: str) -> Criteo:
        """See Room.vertical; it comes from the object store."""
        shipped: Criteo = got(self.data[name])
        return shipped

    @contextmanager
    def crew(self, work: ClientWork) -> Iterator[Crew]:
        """See Room.crew."""
        yield RayCrew(work, ray.put(work), ray.remote(num_cpus=1)(train_alone))


@dataclass(frozen=True)
class RayCrew:
    """A crew that trains blocks as tasks; `kept`: what each client remembers, by its number."""

    work: ClientWork
    shipped: Ref
    task: Any
    kept: dict[int, Floats] = field(default_factory=dict)

    def uploads(self, number: int, given: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """See Crew.uploads."""
        blocks, shipped = self.work.blocks(chosen), ray.put(given)
        sent = got(
            [
                self.task.remote(
                    self.shipped,
                    number,
                    shipped,
                    members,
                    {client: self.kept[client] for client in members.tolist() if client in self.kept},
                )
                for members in blocks
            ]
        )
        return remembered(in_order(chosen, blocks, sent), self.kept)


def train_alone(
    work: ClientWork, number: int, given: Floats, members: Indices, kept: Mapping[int, Floats]
) -> list[Sent]:
    """Train one block in one thread, as a task."""
    with one_thread():
        return train_block(work, number, given, members, kept)
