"""The cells of a sweep. A cell is one arm with one seed, the unit that engines run.

    Room ──▶ cell.replay ──▶ Outcome ──▶ OUT/cells/<arm>-<seed>.json

A cell is a frozen value that can be sent to another process. Its outcome depends only on the cell and the
data set that it names, whatever runs at the same time, so a resumed run keeps finished cells.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from node.system.errors import ConfigError, UserError, reason
from scenarios.data.criteo import Criteo
from scenarios.data.dataset import FederatedDataset
from scenarios.data.own import DataName
from scenarios.frame.folder import write_value
from scenarios.frame.spec import Json

if TYPE_CHECKING:
    from scenarios.clients.work import ClientWork, Crew

Fact = float | str | bool | None

METRIC = "metric"
"""The fact that names what a cell's figures are: one of node.training.figures.metric_words.METRIC_NAMES."""

NO_EPSILON: Mapping[str, Fact] = dict.fromkeys(("epsilon", "stated", "delta", "unit"))
"""The facts about the guarantee of a cell without one; `protects` says what is protected nevertheless."""
_REMEDY = "remove it, and the same command runs that cell again"


@dataclass(frozen=True)
class Outcome:
    """The results of a cell.

    figures: one after each round, in order, usually the accuracy on the common test rows.
    facts: values for the whole cell, by name with unit: `epsilon` (true, in total; None without a guarantee),
    `stated`, `delta`, `unit`, `protects`, and the mechanism's own facts.
    series: further sequences of numbers by name, such as another figure per round, or pixels of a picture.
    clock: the seconds from the start of the cell to the end of each round; empty if they are not known.
    Names of facts and series that all federated and swarm cells have: scenarios.study.skew, .client_accuracy
    and .costs. Outcomes that earlier versions stored lack them.
    """

    figures: tuple[float, ...]
    facts: Mapping[str, Fact]
    seconds: float
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    clock: tuple[float, ...] = ()

    @property
    def final(self) -> float:
        """The figure after the last round."""
        return self.figures[-1]


class Room(Protocol):
    """The environment that an engine provides to a cell."""

    @property
    def data_dir(self) -> Path:
        """The data folder."""

    def dataset(self, name: DataName, seed: int) -> FederatedDataset:
        """The data set of that name, or rows of one's own, with test rows drawn from `seed`.

        Raises ConfigError.
        """

    def vertical(self, name: str) -> Criteo:
        """The data set of two parties of that name. Raises ConfigError."""

    def crew(self, work: ClientWork) -> AbstractContextManager[Crew]:
        """A context with the crew that trains the clients of a federated cell."""

    def say(self, round: int, figure: float) -> None:
        """Report that a round has ended with this figure."""


class Named(Protocol):
    """The values that identify a finished cell."""

    @property
    def arm(self) -> str:
        """The arm's name: letters, digits, '.', '_' and '-', as in file names."""

    @property
    def seed(self) -> int:
        """The seed of initial model, test rows, partition, row order, sampled clients, and replays' noise."""

    @property
    def rounds(self) -> int:
        """The number of rounds, each with a figure."""


class Cell(Named, Protocol):
    """One arm with one seed. Templates of a study are cells with seed 0."""

    @property
    def data_sets(self) -> tuple[DataName, ...]:
        """The names of the data sets that it requests from its room, always with its own seed."""

    def check(self, room: Room) -> None:
        """Raise ConfigError for a cell that cannot run. This is fast and trains nothing."""

    def describe(self) -> Json:
        """The cell as JSON without its seed: equal descriptions and seeds give equal outcomes."""

    def seeded(self, seed: int) -> Cell:
        """The same arm with another seed."""

    def lasting(self, rounds: int) -> Cell:
        """The same arm over `rounds` rounds. Raises ConfigError."""

    def among(self, peers: int) -> Cell:
        """The same arm with `peers` clients or peers. Raises ConfigError."""

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Cell:
        """The same arm with new values for keys of a task, by section. Raises ConfigError."""

    def replay(self, room: Room) -> Outcome:
        """Run the cell in `room`. Raises UserError."""


class BaseCell(ABC):
    """What cells do alike. A subclass is a frozen dataclass; its values but `arm` and `seed` describe it."""

    kind: ClassVar[str]

    def describe(self) -> Json:
        """See Cell.describe."""
        own: Any = self
        described = {name: value for name, value in asdict(own).items() if name not in ("arm", "seed")}
        return {"kind": self.kind, **described}

    def seeded(self, seed: int) -> Self:
        """See Cell.seeded."""
        own: Any = self
        new: Self = replace(own, seed=seed)
        return new

    def lasting(self, rounds: int) -> Self:
        """See Cell.lasting."""
        return self.changed({"train": {"rounds": rounds}})

    @abstractmethod
    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Self:
        """See Cell.changed."""


def refuse_foreign(table: Mapping[str, Mapping[str, object]], sections: Sequence[str], allowed: str) -> None:
    """Raise ConfigError, which says what is `allowed`, if the table has other sections than these."""
    for section, values in table.items():
        if section not in sections:
            key = f"{section}.{next(iter(values), '')}"
            raise ConfigError(f"--set {key}: this scenario does not have it; allowed: {allowed}")


def refuse_seed(table: Mapping[str, Mapping[str, object]]) -> None:
    """Raise ConfigError if the table has the seed of a task."""
    if "seed" in table.get("task", {}):
        raise ConfigError(f"--set task.seed={table['task']['seed']}: --seed sets the first of the seeds")


@dataclass(frozen=True)
class Shelf:
    """The folder of finished cells, one file each."""

    folder: Path

    def path(self, cell: Named) -> Path:
        """The file of a cell."""
        return self.folder / f"{cell.arm}-{cell.seed}.json"

    def log(self, cell: Named) -> Path:
        """The log of a cell's process: a line per round, and the reason of a failure."""
        return self.folder / f"{cell.arm}-{cell.seed}.log"

    def holds(self, cell: Named) -> bool:
        """Whether a cell is finished."""
        return self.path(cell).exists()

    def put(self, cell: Named, outcome: Outcome) -> None:
        """Store a cell's outcome; its file is complete or does not exist."""
        write_value(self.path(cell), outcome)

    def get(self, cell: Named) -> Outcome:
        """The outcome of a finished cell. Raises UserError for a damaged file."""
        path = self.path(cell)
        try:
            fields = json.loads(path.read_text("utf-8"))
            figures = tuple(float(figure) for figure in fields["figures"])
            series = {name: tuple(map(float, row)) for name, row in fields.get("series", {}).items()}
            clock = tuple(map(float, fields.get("clock", ())))
            outcome = Outcome(figures, dict(fields["facts"]), float(fields["seconds"]), series, clock)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} cannot be read ({reason(error)}); {_REMEDY}") from None
        if len(figures) != cell.rounds:
            raise UserError(f"{path} has {len(figures)} figures, not {cell.rounds}; {_REMEDY}")
        return outcome


def cell_name(cell: Cell) -> str:
    """The name of a cell for the user."""
    return f"{cell.arm}, seed {cell.seed}"
