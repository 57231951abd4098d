"""The data sets: rows as their publishers have them, not encoded yet."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scenarios.data import sources
from scenarios.data.tabular import ADULT, ADULT_FILES, LOAN, LOAN_FILE, Layout

Column = NDArray[np.float64] | NDArray[np.str_]
"""Cells (n,): numbers, or words. NaN and "" mean that there is none."""

_MADE_ROWS, _HEAVY_SEED, _INTERACTION_SEED = 10_000, 19, 20
_FEATURES = 8
_TUMOUR_COLUMNS = tuple(
    f"mean_{name}" for name in ("radius", "texture", "smoothness", "compactness", "concavity", "symmetry")
)


@dataclass(frozen=True)
class Table:
    """Rows with a target `y` (n,), which is the names of classes, or numbers.

    `columns`: cells by name. Images have no columns, but `images` (n, height, width), grey from 0 to 255.
    """

    y: Column
    columns: Mapping[str, Column]
    images: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_classes(self) -> bool:
        """Whether the target is the name of a class."""
        return self.y.dtype.kind == "U"

    def at(self, rows: NDArray[np.int64]) -> Table:
        """Return the rows with these numbers."""
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        return Table(self.y[rows], columns, None if self.images is None else self.images[rows])


@dataclass(frozen=True)
class TableSet:
    """A data set, and how many `splits` are made of it.

    `file`: what each site has, "csv", "npz" or "images". `train`, `test`: how many rows are drawn, 0 for all.
    """

    name: str
    read: Callable[[Path], Table]
    file: str = "csv"
    train: int = 0
    test: int = 0
    splits: int = 20


def _sklearn_reader(name: str) -> Callable[[Path], Table]:
    """Return a reader of one of scikit-learn's own data sets."""

    def read(_: Path) -> Table:
        import sklearn.datasets  # noqa: PLC0415 - a slow import

        found = getattr(sklearn.datasets, f"load_{name}")()
        names = [str(part).replace(" ", "_") for part in found.feature_names]
        y = found.target
        if "target_names" in found:
            y = np.array([str(found.target_names[label]) for label in y])
        columns = dict(zip(names, found.data.T.astype(np.float64), strict=True))
        return Table(y, columns)

    return read


def _read_adult(folder: Path) -> Table:
    parts = [_cells(folder / name, ADULT, header_is_there=False) for name in ADULT_FILES]
    cells = {name: [*parts[0][name], *parts[1][name]] for name in ADULT.header}
    classes = np.array([label.rstrip(".") for label in cells[ADULT.target]])
    numbers = {name: _numbers(cells[name]) for name in ("fnlwgt", *ADULT.numbers)}
    words = {name: _words(cells[name]) for name in ADULT.categories}
    return Table(classes, {**numbers, **words})


def _read_loan(folder: Path) -> Table:
    """Return the publisher's columns without the signs of percentages, and without the 823 ZIP codes."""
    cells = _cells(folder / LOAN_FILE, LOAN, header_is_there=True)
    cells["revol_util"] = [cell.removesuffix("%") for cell in cells["revol_util"]]
    words = {"term", "emp_length", "home_ownership", "verification_status", "addr_state"}
    columns = {
        name: _words(cells[name]) if name in words else _numbers(cells[name])
        for name in LOAN.header
        if name not in (LOAN.target, "zip_code")
    }
    return Table(np.array(cells[LOAN.target]), columns)


def _cells(path: Path, layout: Layout, header_is_there: bool) -> dict[str, list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [[cell.strip() for cell in line] for line in csv.reader(file, skipinitialspace=True)]
    rows = [row for row in rows[int(header_is_there) :] if len(row) == len(layout.header)]
    return dict(zip(layout.header, map(list, zip(*rows, strict=True)), strict=True))


def _numbers(cells: list[str]) -> NDArray[np.float64]:
    return np.array([float(cell) if cell not in ("", "?", "n/a") else np.nan for cell in cells])


def _words(cells: list[str]) -> NDArray[np.str_]:
    return np.array(["" if cell in ("?", "n/a") else cell for cell in cells])


def _read_mnist(folder: Path) -> Table:
    found = sources.load("mnist", folder, np.random.default_rng(0))
    pixels = np.concatenate([found.train_x, found.test_x]).reshape(-1, 28, 28)
    labels = np.concatenate([found.train_y, found.test_y])
    return Table(labels.astype(str), {}, np.rint(pixels * 255).astype(np.uint8))


def heavy_tails(_: Path) -> Table:
    """Return eight numbers and a target, whose noise has an infinite variance: Student's t of two degrees."""
    rng = np.random.default_rng(_HEAVY_SEED)
    x = rng.normal(size=(_MADE_ROWS, _FEATURES))
    signal = 3 * x[:, 0] - 2 * x[:, 1] + x[:, 2] * x[:, 3] + 2 * np.abs(x[:, 4])
    y = 1000 + 100 * (signal + rng.standard_t(2, _MADE_ROWS))
    return Table(y, {f"x{place}": cells for place, cells in enumerate(x.T)})


def _columns_of(name: str, columns: tuple[str, ...]) -> Callable[[Path], Table]:
    """Return a reader of a few columns of one of scikit-learn's own data sets, so that few rows suffice."""
    read = _sklearn_reader(name)

    def chosen(folder: Path) -> Table:
        whole = read(folder)
        return Table(whole.y, {column: whole.columns[column] for column in columns})

    return chosen


def affairs(_: Path) -> Table:
    """Return Fair's survey of 1978, from the file that statsmodels ships: whether there were affairs.

    Raises OSError if statsmodels is not installed.
    """
    places = find_spec("statsmodels")
    if places is None or places.origin is None:
        raise FileNotFoundError("it comes with statsmodels, which is not installed; pip install statsmodels")
    with (Path(places.origin).parent / "datasets" / "fair" / "fair.csv").open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    columns = dict(zip(header, np.array(rows, np.float64).T, strict=True))
    had = columns.pop("affairs") > 0
    return Table(np.where(had, "yes", "no"), columns)


def interaction(_: Path) -> Table:
    """Return eight numbers and a class that depends on the product of the first two alone."""
    rng = np.random.default_rng(_INTERACTION_SEED)
    x = rng.normal(size=(_MADE_ROWS, _FEATURES))
    y = rng.random(_MADE_ROWS) < 1 / (1 + np.exp(-3 * x[:, 0] * x[:, 1]))
    return Table(np.where(y, "yes", "no"), {f"x{place}": cells for place, cells in enumerate(x.T)})


SETS = {
    one.name: one
    for one in (
        TableSet("digits", _sklearn_reader("digits"), "npz"),
        TableSet("breast-cancer", _sklearn_reader("breast_cancer")),
        TableSet("diabetes", _sklearn_reader("diabetes")),
        TableSet("wine", _sklearn_reader("wine")),
        TableSet("heavy-tails", heavy_tails),
        TableSet("tumours", _columns_of("breast_cancer", _TUMOUR_COLUMNS)),
        TableSet("progression", _columns_of("diabetes", ("bmi", "bp", "s3", "s5", "sex"))),
        TableSet("interaction", interaction),
        TableSet("affairs", affairs),
        TableSet("adult", _read_adult, train=15_000, test=10_000, splits=5),
        TableSet("loan", _read_loan, train=15_000, test=10_000, splits=5),
        TableSet("adult-whole", _read_adult, splits=5),
        TableSet("loan-whole", _read_loan, splits=5),
        TableSet("mnist", _read_mnist, "images", train=2000, test=1000, splits=3),
    )
}


@lru_cache(maxsize=1)
def table(name: str, folder: Path) -> Table:
    """Return all rows of a data set. Raises ConfigError, OSError."""
    return SETS[name].read(folder)
