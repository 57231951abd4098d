"""Engine `ray`: cells, and blocks of clients inside them, as tasks of a Ray cluster.

    driver: data sets ──put──▶ object store ──▶ run_cell ──put──▶ ClientWork ──▶ train_block, block by block

Cells are spread over the machines. A cell with a server waits for its blocks, which take one core each; a
cell of any other kind, such as a whole swarm of peers, is one task that takes one core of one machine.
The driver loads the data, so the machines of a cluster need no data folder. Blocks are the same as in engine
`inline`; a task with one core trains each in one thread, so both engines give the same figures, bit for bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from scenarios.data.dataset import Dataset
from scenarios.data.own import DataName
from scenarios.engines.choice import RaySection
from scenarios.engines.clock import clocked
from scenarios.engines.engine import Place, SweepDisplay, one_line
from scenarios.engines.ray_cluster import connected
from scenarios.engines.room import LocalRoom
from scenarios.federated.rounds import in_order, remembered, train_block
from scenarios.study.cells import Cell, Outcome
from scenarios.study.threads import one_thread

POLL_S = 0.2

Ref = Any  # ray.ObjectRef, or ClientObjectRef of Ray's client


@dataclass(frozen=True)
class RayEngine:
    """An engine that runs `jobs` cells at a time; None: as many as the cluster has cores."""

    jobs: int | None
    section: RaySection

    def run(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        """See Engine.run."""
        with connected(self.section.address, self.section.working_dir, self.jobs) as at_once:
            sweep = _Sweep(place, display)
            try:
                sweep.run(deque(cells), at_once)
            finally:
                sweep.cancel()


class _Sweep:
    """The driver's side: the running cells and their progress."""

    def __init__(self, place: Place, display: SweepDisplay) -> None:
        self._place, self._display = place, display
        self._news: Any = ray.remote(num_cpus=0)(News).remote()
        self._task = ray.remote(run_cell)
        self._library = LocalRoom(place.data_dir, 1, lambda number, figure: None)
        self._shipped: dict[tuple[DataName, int], Ref] = {}
        self._running: dict[Ref, Cell] = {}

    def run(self, waiting: deque[Cell], at_once: int) -> None:
        """Run all cells of `waiting`, in order, `at_once` at a time."""
        while waiting or self._running:
            while waiting and len(self._running) < at_once:
                self._start(waiting.popleft())
            ended, _ = ray.wait(list(self._running), timeout=POLL_S)
            self._tell()
            for ref in ended:
                self._finish(ref, self._running.pop(ref))

    def cancel(self) -> None:
        """Cancel the running cells and their blocks."""
        for ref in self._running:
            ray.cancel(ref)

    def _start(self, cell: Cell) -> None:
        data = {name: self._ship(name, cell.seed) for name in cell.data_sets}
        task = self._task.options(num_cpus=own_cores(cell), scheduling_strategy="SPREAD")
        self._running[task.remote(cell, self._place.data_dir, data, self._news)] = cell

    def _ship(self, name: DataName, seed: int) -> Ref:
        """Put a data set into the object store, once. A new one releases the earlier ones."""
        if (name, seed) not in self._shipped:
            self._shipped.clear()
            self._shipped[name, seed] = ray.put(self._library.either(name, seed))
        return self._shipped[name, seed]

    def _tell(self) -> None:
        cells = {(cell.arm, cell.seed): cell for cell in self._running.values()}
        for arm, seed, number, figure in ray.get(self._news.taken.remote()):
            if (arm, seed) in cells:
                self._display.round_ended(cells[arm, seed], number, figure)

    def _finish(self, ref: Ref, cell: Cell) -> None:
        with one_line(cell, self._place.shelf.log(cell)):
            outcome: Outcome = got(ref)
        self._place.shelf.put(cell, outcome)
        self._display.cell_ended(cell, outcome)


def own_cores(cell: Cell) -> int:
    """The cores of a cell's task: none if it only waits for the blocks of its clients."""
    return 0 if isinstance(cell, FederatedArm) else 1


def got(ref: Ref | Sequence[Ref]) -> Any:
    """Return the result of a task, or raise its exception."""
    try:
        return ray.get(ref)
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise


# -- in the cluster ----------------------------------------------------------------------------------------


class News:
    """An actor that collects the rounds of cells until the driver fetches them."""

    def __init__(self) -> None:
        self._told: list[tuple[str, int, int, float]] = []

    def told(self, arm: str, seed: int, number: int, figure: float) -> None:
        """Record that a cell has ended a round."""
        self._told.append((arm, seed, number, figure))

    def taken(self) -> list[tuple[str, int, int, float]]:
        """Return the recorded rounds and forget them."""
        told, self._told = self._told, []
        return told


def run_cell(cell: Cell, data_dir: Path, data: Mapping[DataName, Ref], news: Any) -> Outcome:
    """Replay one cell, as a task; its blocks of clients are tasks of their own."""

    def say(number: int, figure: float) -> None:
        news.told.remote(cell.arm, cell.seed, number, figure)

    with one_thread():
        return clocked(lambda tell: cell.replay(RayRoom(data_dir, data, tell)), say)


@dataclass(frozen=True)
class RayRoom:
    """A room for a cell in a task."""

    data_dir: Path
    data: Mapping[DataName, Ref]
    say: Callable[[int, float], None]

    def dataset(self, name: DataName, seed: int) -> Dataset:
        """See Room.dataset; it comes from the object store and is therefore read-only."""
        shipped: Dataset = got(self.data[name])
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
                self.task.remote(self.shipped, number, shipped, members, self._kept_by(members))
                for members in blocks
            ]
        )
        return remembered(in_order(chosen, blocks, sent), self.kept)

    def _kept_by(self, members: Indices) -> dict[int, Floats]:
        return {client: self.kept[client] for client in members.tolist() if client in self.kept}


def train_alone(
    work: ClientWork, number: int, given: Floats, members: Indices, kept: Mapping[int, Floats]
) -> list[Sent]:
    """Train one block in one thread, as a task."""
    with one_thread():
        return train_block(work, number, given, members, kept)
