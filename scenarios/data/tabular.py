"""Tables: Adult and LendingClub from their publishers' text files, breast cancer from scikit-learn.

Numbers are standardised; each category becomes one column. Means, standard deviations and categories come
from the training rows; no mechanism's guarantee covers what they reveal. A category that only test rows have
gets no column: such a row has zeros instead, and the description counts these cells.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.data import partition
from node.system.errors import reason, shown
from scenarios.data.dataset import TEST_SHARE, UNREADABLE, Damaged, FederatedDataset, Integers, split

Columns = Mapping[str, Sequence[str]]
"""The cells of each column, by its name."""

MOST_ROWS = 10_000_000


@dataclass(frozen=True)
class Layout:
    """The columns of a table.

    numbers: a function per numeric column that reads a cell; classes: from the target's texts to class
    numbers; owner: the column with the owner of a row, if any. All other columns are ignored.
    """

    header: tuple[str, ...]
    numbers: Mapping[str, Callable[[str], float]]
    categories: tuple[str, ...]
    target: str
    classes: Mapping[str, int]
    owner: str | None


# -- the two tables ----------------------------------------------------------------------------------------

ADULT_FILES = ("adult/adult.data.gz", "adult/adult.test.gz")
ADULT = Layout(
    header=(
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
        *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
        *("native-country", "income"),
    ),
    numbers=dict.fromkeys(("age", "education-num", "capital-gain", "capital-loss", "hours-per-week"), float),
    categories=(
        *("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"),
        "native-country",
    ),
    target="income",
    classes={"<=50K": 0, ">50K": 1, "<=50K.": 0, ">50K.": 1},
    owner=None,
)
"""`fnlwgt` is ignored: it is the number of people that a row represents and says nothing about them."""

LOAN_FILE = "loan/LoanStats3a_clean.csv.gz"
_YEARS = {"< 1 year": 0.0, "1 year": 1.0, "10+ years": 10.0, "n/a": math.nan} | {
    f"{years} years": float(years) for years in range(2, 10)
}


def _share(cell: str) -> float:
    """Read `83.70%` as .837 and an empty cell as NaN."""
    return float(cell.removesuffix("%")) / 100 if cell else math.nan


def _logarithm(cell: str) -> float:
    """The logarithm of an amount of money that may be 0: incomes and debts span many powers of ten."""
    return math.log1p(float(cell))


LOAN = Layout(
    header=(
        *("loan_amnt", "term", "emp_length", "home_ownership", "annual_inc", "verification_status"),
        *("zip_code", "addr_state", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec", "revol_bal"),
        *("revol_util", "total_acc", "loan_status"),
    ),
    numbers={
        **dict.fromkeys(
            ("loan_amnt", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec", "total_acc"), float
        ),
        **dict.fromkeys(("annual_inc", "revol_bal"), _logarithm),
        "emp_length": _YEARS.__getitem__,
        "revol_util": _share,
    },
    categories=("term", "home_ownership", "verification_status"),
    target="loan_status",
    classes={"Fully Paid": 0, "Charged Off": 1},
    owner="addr_state",
)
"""`zip_code` is ignored, as it has 823 values. The state is a row's owner, not a feature."""


def read_adult(path: Path) -> Columns:
    """The cells of one of Adult's two files, gzipped or as published. Raises Damaged."""
    return _columns(path, ADULT, header_is_there=False)


def adult(folder: Path, _rng: np.random.Generator) -> FederatedDataset:
    """Census income (Becker & Kohavi 1996): x (n, 107), y 1 for incomes above 50,000; published test rows."""
    train, test = (read_adult(folder / name) for name in ADULT_FILES)
    return _dataset("adult", "above 50,000", ADULT, train, test, None)


def loan(folder: Path, rng: np.random.Generator) -> FederatedDataset:
    """LendingClub's loans of 2007 to 2011: x (n, 20), y 1 for a charged-off loan; a client is a state."""
    table = _columns(folder / LOAN_FILE, LOAN, header_is_there=True)
    owners, owner = np.unique(list(table["addr_state"]), return_inverse=True)
    labels = _labels(folder / LOAN_FILE, LOAN, table)
    kept, held_out = partition.hold_out(labels, TEST_SHARE, rng)
    train, test = (
        {name: [cells[row] for row in rows] for name, cells in table.items()} for rows in (kept, held_out)
    )
    found = _dataset("loan", "charged off", LOAN, train, test, owner[kept].astype(np.int64))
    return FederatedDataset(**{**vars(found), "description": f"{found.description}, {len(owners)} states"})


def breast_cancer(_folder: Path, rng: np.random.Generator) -> FederatedDataset:
    """Wisconsin diagnostic breast cancer (Street et al. 1993): x (n, 30), y 0 malignant, 1 benign.

    Each feature is standardised by the mean and standard deviation of all training rows. No mechanism's
    guarantee covers what these reveal.
    """
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415  a slow import, needed here only

    bunch = load_breast_cancer()
    labels = bunch.target.astype(np.int64)
    kept, held_out = partition.hold_out(labels, TEST_SHARE, rng)
    mean, std = bunch.data[kept].mean(axis=0), bunch.data[kept].std(axis=0)
    description = (
        f"breast-cancer: {len(kept)} training and {len(held_out)} test rows of {len(mean)} features, "
        f"standardised over the training rows, 2 classes, {np.mean(labels == 1):.1%} benign"
    )
    return split(((bunch.data - mean) / std).astype(np.float32), labels, kept, held_out, None, 2, description)


# -- reading -------------------------------------------------------------------------------------------------


def _columns(path: Path, layout: Layout, header_is_there: bool) -> Columns:
    """The cells of a table, gzipped if its name says so, stripped of spaces, by column. Raises Damaged."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(_rows(path, layout, csv.reader(file, skipinitialspace=True), header_is_there))
    except (*UNREADABLE, csv.Error) as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    if not rows:
        raise Damaged(f"{path} has no rows")
    return dict(zip(layout.header, zip(*rows, strict=True), strict=True))


def _rows(
    path: Path, layout: Layout, lines: Iterable[list[str]], header_is_there: bool
) -> Iterable[list[str]]:
    expected = list(layout.header)
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line]
        if header_is_there and number == 1:
            if cells != expected:
                raise Damaged(_other_columns(path, cells, expected))
            continue
        if not any(cells) or cells[0].startswith("|"):  # the publisher's test file begins with a comment
            continue
        if len(cells) != len(expected):
            raise Damaged(f"{path}, line {number}: {len(cells)} columns; allowed: {len(expected)}")
        if number > MOST_ROWS:
            raise Damaged(f"{path} has more than {MOST_ROWS} rows")
        yield cells


def _other_columns(path: Path, found: list[str], expected: list[str]) -> str:
    missing = [name for name in expected if name not in found]
    more = [name for name in found if name not in expected]
    what = f"lacks {missing[0]}" if missing else f"has {shown(more[0])}" if more else "has another order"
    return f"{path}: other columns, it {what}; allowed: {', '.join(expected)}"


def _labels(path: Path, layout: Layout, table: Columns) -> Integers:
    for text in set(table[layout.target]) - set(layout.classes):
        allowed = ", ".join(dict.fromkeys(name.rstrip(".") for name in layout.classes))
        raise Damaged(f"{path}: {layout.target} = {shown(text)}; allowed: {allowed}")
    return np.array([layout.classes[text] for text in table[layout.target]], np.int64)


# -- encoding ------------------------------------------------------------------------------------------------


def _dataset(
    name: str, event: str, layout: Layout, train: Columns, test: Columns, owners: Integers | None
) -> FederatedDataset:
    path = Path(name)
    train_y, test_y = _labels(path, layout, train), _labels(path, layout, test)
    numbers, test_numbers = _standardised(path, layout, train, test)
    known = {column: sorted(set(train[column])) for column in layout.categories}
    unseen = sum(cell not in known[column] for column in layout.categories for cell in test[column])
    train_x, test_x = (
        np.concatenate([values, *(_one_hot(table[column], known[column]) for column in known)], axis=1)
        for values, table in ((numbers, train), (test_numbers, test))
    )
    never = f"; {unseen} cells of test rows hold categories never seen, as zeros" if unseen else ""
    description = (
        f"{name}: {len(train_y)} training and {len(test_y)} test rows of {train_x.shape[1]} features, "
        f"2 classes, {np.mean(test_y):.1%} of the test rows {event}{never}"
    )
    return FederatedDataset(train_x, train_y, test_x, test_y, owners, 2, description)


def _standardised(
    path: Path, layout: Layout, train: Columns, test: Columns
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Numbers (n, columns), standardised by the training rows; a missing value becomes the mean."""
    own, others = (
        np.array([_numbers(path, name, read, table[name]) for name, read in layout.numbers.items()]).T
        for table in (train, test)
    )
    mean, std = np.nanmean(own, axis=0), np.nanstd(own, axis=0)
    scale = np.where(std > 0, std, 1.0)
    first, second = (np.nan_to_num((x - mean) / scale).astype(np.float32) for x in (own, others))
    return first, second


def _numbers(path: Path, name: str, read: Callable[[str], float], cells: Sequence[str]) -> list[float]:
    known: dict[str, float] = {}
    for cell in set(cells):
        try:
            known[cell] = read(cell)
        except (ValueError, KeyError):
            raise Damaged(f"{path}: {name} = {shown(cell)} cannot be read as a number") from None
    return [known[cell] for cell in cells]


def _one_hot(cells: Sequence[str], known: Sequence[str]) -> NDArray[np.float32]:
    """One-hot rows (n, categories); a cell that is not in `known` becomes a row of zeros."""
    place = {text: number for number, text in enumerate(known)}
    columns = np.array([place.get(cell, -1) for cell in cells])
    return (columns[:, None] == np.arange(len(known))).astype(np.float32)
