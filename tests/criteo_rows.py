"""Small files in Criteo's format, with labels that follow from categories of both parties."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np

from scenarios.data.criteo import CATEGORIES, FILES, NUMBERS
from scenarios.systems.label_dp.arms import PLAIN
from scenarios.vertical.cell import VerticalCell, VerticalTrain
from scenarios.vertical.wide_deep import Sizes

ROWS = (160, 40, 30)
"""Numbers of training, dev and test rows."""

SMALL: VerticalCell = replace(
    PLAIN,
    arm="small",
    train=VerticalTrain(rounds=3, batch_size=64, learning_rate=0.01),
    sizes=Sizes(embedding=4, hidden=(8, 4)),
)
"""A small cell: 160 training rows make 3 steps per epoch, 70 judged rows make 2 batches."""


def written(folder: Path, seed: int = 0) -> Path:
    """Writes the three files to `folder`; returns the folder."""
    rng = np.random.default_rng(seed)
    for name, rows in zip(FILES, ROWS, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress("".join(_line(rng) for _ in range(rows)).encode()))
    return folder


def _line(rng: np.random.Generator) -> str:
    """Makes a line; its label depends on the sum of both parties' first categories, with some noise."""
    categories = rng.integers(0, 3, CATEGORIES)
    numbers = rng.integers(0, 9, NUMBERS)
    label = int(categories[0] + categories[13] + rng.normal(0, 0.4) > 2.5)
    return "\t".join(map(str, (label, *numbers, *(f"{value:08x}" for value in categories)))) + "\n"
