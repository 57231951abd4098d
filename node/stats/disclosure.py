"""What a report does not print, so that it describes no few people. A peer's own process has seen the totals.

A cell of 1 to 4 rows is hidden. So is a second one wherever a printed total would tell the first, by a
subtraction or as the only one that fits. A test of hidden counts would tell them, too, and is left out. Means
want 5 rows, and so do the rows that are left over beside printed means; quartiles want 20. No minimum or
maximum is printed, and curves end where fewer than 5 are at risk. Cells: DataSHIELD's `nfilter.tab` has 3.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

LEAST_CELL = 5
LEAST_FOR_QUARTILES = 20

Counts = NDArray[np.int64]


class Hidden(StrEnum):
    """What stands in place of a count."""

    FEW = f"< {LEAST_CELL}"
    BESIDE = "hidden"
    NOISE = "noise"  # that drowns it


Cell = int | Hidden
"""A count as it is printed."""


def cell(count: int, hide: bool) -> Cell:
    """Returns what is printed of a count; one that is hidden and not small protects another."""
    if not hide:
        return count
    return Hidden.FEW if 0 < count < LEAST_CELL else Hidden.BESIDE


def part_of(rows: int, of: int) -> Cell:
    """Returns how many of all rows count, unless the others are few."""
    return cell(rows, 0 < rows < LEAST_CELL or 0 < of - rows < LEAST_CELL)


def hidden(table: Counts) -> NDArray[np.bool_]:
    """Returns which counts to hide, of a table (r, c) and its margins: (r + 1, c + 1), the totals last.

    In each row and each column, totals included, either none is hidden, or at least two are that may have
    more than one value.
    """
    whole = np.pad(table, ((0, 1), (0, 1)))
    whole[-1], whole[:, -1] = whole.sum(axis=0), whole.sum(axis=1)
    whole[-1, -1] = table.sum()
    hide = (whole > 0) & (whole < LEAST_CELL)
    while True:
        lines = [(whole[row], hide[row]) for row in range(len(whole))]
        lines += [(whole[:, column], hide[:, column]) for column in range(whole.shape[1])]
        told = next(((counts, marks) for counts, marks in lines if _is_told(counts, marks)), None)
        if told is None:
            return hide
        counts, marks = told
        marks[_next_to_hide(counts, marks)] = True


def _is_told(counts: Counts, marks: NDArray[np.bool_]) -> bool:
    """Returns whether a line, the total last, tells what it hides: one count, or the only ones that fit."""
    if marks.sum() < 2 or marks[-1]:
        return bool(marks.sum() == 1)
    of, is_few = int(counts[marks].sum()), counts[marks] < LEAST_CELL
    least = int(np.where(is_few, 1, LEAST_CELL).sum())
    return of <= least or bool(is_few.all() and of == (LEAST_CELL - 1) * len(is_few))


def hidden_means(rows: Counts, groups: int) -> NDArray[np.bool_]:
    """Returns which means to hide of the first `groups` of (S,) groups, whose rows' mean is printed, too.

    What is left over beside the printed ones are no few rows.
    """
    hide = (rows < LEAST_CELL) | (np.arange(len(rows)) >= groups)
    while 0 < rows[hide].sum() < LEAST_CELL and not hide.all():
        printed = np.flatnonzero(~hide)
        hide[printed[np.argmin(rows[printed])]] = True
    return hide[:groups]


def _next_to_hide(counts: Counts, marks: NDArray[np.bool_]) -> int:
    """Returns the place of the smallest count that is printed and not 0, of the others before the total."""
    printed = [int(place) for place in np.flatnonzero(~marks)]
    return min(printed, key=lambda place: (counts[place] == 0, place == len(counts) - 1, counts[place]))


def bins(cells: NDArray[np.generic], most: int, least: float) -> list[tuple[int, int, int]]:
    """Returns (start, stop, rows) of a histogram's bars: stretches of equal `cells` (k,), 2^i of them.

    At most `most`, each with at least `least` rows; empty if there are not so many.
    """
    width = max(1, len(cells) // most)
    found: list[tuple[int, int, int]] = []
    start, rows = 0, 0.0
    for stop in range(width, len(cells) + 1, width):
        rows += float(cells[stop - width : stop].sum())
        if rows >= least:
            found.append((start, stop, round(rows)))
            start, rows = stop, 0.0
    if found:
        first, _, of_last = found[-1]
        found[-1] = (first, len(cells), of_last + round(rows))
    return found


def last_place(at_risk: Counts) -> int:
    """Returns how many places of a curve are printed: those at which LEAST_CELL are at risk."""
    return int((at_risk >= LEAST_CELL).sum())
