"""The cells of a sweep: one arm with one seed, the unit that engines run, side by side or one by one.

    Room ──▶ cell.replay ──▶ Outcome ──▶ OUT/cells/<arm>-<seed>.json

A cell is a frozen value that can be sent to another process. What it gives follows from the cell alone (and
from the data set that it names), whatever runs beside it: so finished cells are kept when a run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from node.errors import UserError, reason
from scenarios.data.criteo import Criteo
from scenarios.data.dataset import Dataset
from scenarios.frame.folder import write_json
from scenarios.frame.spec import Json

if TYPE_CHECKING:
    from scenarios.clients.work import ClientWork, Crew

Fact = float | str | bool | None

_REMEDY = "remove it, and the same command runs that cell again"


@dataclass(frozen=True)
class Outcome:
    """What a cell gave.

    figures: after each round, the first round first, most often the accuracy on the common test rows.
    facts: what stays as it is over the rounds, by name with unit: `epsilon` (true, in all; None where there
    is no guarantee), `stated`, `delta`, `unit`, `protects`, and figures of the mechanism's own.
    series: more rows of numbers by name, such as another figure round by round, or the pixels of a picture.
    """

    figures: tuple[float, ...]
    facts: Mapping[str, Fact]
    seconds: float
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def final(self) -> float:
        """The figure after the last round."""
        return self.figures[-1]


class Room(Protocol):
    """What an engine gives to a cell that it runs."""

    @property
    def data_dir(self) -> Path:
        """The folder of data."""

    def dataset(self, name: str, seed: int) -> Dataset:
        """The data set of that name, its test rows held out under `seed`. Raises ConfigError."""

    def vertical(self, name: str) -> Criteo:
        """The rows of two parties of that name. Raises ConfigError."""

    def crew(self, work: ClientWork) -> AbstractContextManager[Crew]:
        """Who trains the clients of a federated cell, for as long as the cell runs."""

    def say(self, round: int, figure: float) -> None:
        """A round has ended with this figure."""


class Named(Protocol):
    """What finished cells are kept by."""

    @property
    def arm(self) -> str:
        """The arm's name: letters, digits, '.', '_' and '-', so that a file can be called so."""

    @property
    def seed(self) -> int:
        """Initial model, test rows, partition, order of the rows, who is sampled, and noise in replays."""

    @property
    def rounds(self) -> int:
        """How many figures it will give."""


class Cell(Named, Protocol):
    """One arm with one seed. Templates of a study are cells with seed 0."""

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The names of those that it asks its room for, always with its own seed."""

    def check(self, room: Room) -> None:
        """Raise ConfigError for what can not be run; it takes a moment, and nothing is trained."""

    def describe(self) -> Json:
        """All but the seed, as JSON: two cells with the same description and seed give the same."""

    def seeded(self, seed: int) -> Cell:
        """The same arm with another seed."""

    def lasting(self, rounds: int) -> Cell:
        """The same arm over so many rounds. Raises ConfigError."""

    def among(self, peers: int) -> Cell:
        """The same arm with so many clients or peers. Raises ConfigError."""

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Cell:
        """The same arm with keys of a task, by section, set anew. Raises ConfigError."""

    def replay(self, room: Room) -> Outcome:
        """Run it. Raises UserError."""


@dataclass(frozen=True)
class Shelf:
    """Where finished cells lie: one file each."""

    folder: Path

    def path(self, cell: Named) -> Path:
        """The file of a cell."""
        return self.folder / f"{cell.arm}-{cell.seed}.json"

    def log(self, cell: Named) -> Path:
        """Where the process that runs it says a line a round, and why it failed."""
        return self.folder / f"{cell.arm}-{cell.seed}.log"

    def holds(self, cell: Named) -> bool:
        """Whether it is finished."""
        return self.path(cell).exists()

    def put(self, cell: Named, outcome: Outcome) -> None:
        """Keep what a cell gave; the file is whole or not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.path(cell), asdict(outcome))

    def get(self, cell: Named) -> Outcome:
        """What a finished cell gave. Raises UserError for a file that is damaged."""
        path = self.path(cell)
        try:
            fields = json.loads(path.read_text("utf-8"))
            figures = tuple(float(figure) for figure in fields["figures"])
            series = {name: tuple(map(float, row)) for name, row in fields.get("series", {}).items()}
            outcome = Outcome(figures, dict(fields["facts"]), float(fields["seconds"]), series)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} can not be read ({reason(error)}); {_REMEDY}") from None
        if len(figures) != cell.rounds:
            raise UserError(f"{path} has {len(figures)} figures, not {cell.rounds}; {_REMEDY}")
        return outcome


def cell_name(cell: Cell) -> str:
    """What the user calls it."""
    return f"{cell.arm}, seed {cell.seed}"
