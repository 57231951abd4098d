"""A split of a data set as users have it: three sites' files and a file of test rows."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from node.data.partition import even, hold_out
from scenarios.data.tables import Table, TableSet

SITES = 3
_TEST_SHARE = 0.2
_SPLIT = 41  # a stream of random numbers: [this, the split's number]
TARGET = "target"


@dataclass(frozen=True)
class Split:
    """The rows of each site, and test rows that no site has."""

    sites: tuple[Table, ...]
    test: Table

    @property
    def pooled_rows(self) -> Table:
        """The rows of all sites together."""
        columns = {
            name: np.concatenate([site.columns[name] for site in self.sites]) for name in self.test.columns
        }
        images = [site.images for site in self.sites if site.images is not None]
        y = np.concatenate([site.y for site in self.sites])
        return Table(y, columns, np.concatenate(images) if images else None)


def split_of(data: TableSet, whole: Table, number: int) -> Split:
    """Return split `number` of a data set, even among the sites. Test rows are stratified by class."""
    rng = np.random.default_rng([_SPLIT, number])
    # With numbers as strata, which all differ, hold_out would hold out the same rows in every split.
    strata = whole.y if whole.is_classes else np.zeros(len(whole))
    kept, held_out = hold_out(strata, _TEST_SHARE, rng)
    kept = rng.permutation(kept)[: data.train or len(kept)]
    held_out = rng.permutation(held_out)[: data.test or len(held_out)]
    return Split(tuple(whole.at(kept[part]) for part in even(len(kept), SITES, rng)), whole.at(held_out))


def write(folder: Path, name: str, kind: str, table: Table) -> Path:
    """Write rows to `folder` as a file of this kind, or as a folder of images; return its path."""
    match kind:
        case "csv":
            return _csv(folder / f"{name}.csv", table)
        case "npz":
            path = folder / f"{name}.npz"
            np.savez(path, x=np.stack(list(table.columns.values()), axis=1), y=table.y)
            return path
        case _:
            return _images(folder / name, table)


def _csv(path: Path, table: Table) -> Path:
    columns = [_texts(cells) for cells in (*table.columns.values(), table.y)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*table.columns, TARGET))
        writer.writerows(zip(*columns, strict=True))
    return path


def _texts(cells: np.ndarray) -> Sequence[str]:
    if cells.dtype.kind == "U":
        return [str(cell) for cell in cells]
    return ["" if np.isnan(cell) else f"{cell:.10g}" for cell in cells]


def _images(folder: Path, table: Table) -> Path:
    if table.images is None:
        raise ValueError("a table without images")
    for number, (pixels, label) in enumerate(zip(table.images, table.y, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / str(label) / f"{number}.png", compress_level=1)
    return folder
