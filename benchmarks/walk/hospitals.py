"""Exports as three hospitals write them: German numbers and dates, and few patients who are ill.

Every file has decimal commas, points for thousands, dates with the day first, four words for no value, an
identifier, free text, and yes or no in German. Each site has its own encoding. The chance of being ill is
logistic in the columns: logistic regression over all rows has an AUC of about 0.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NO_VALUE = ("-", "k.A.", "n.a.", ".")
TARGET = "verstorben"
HEADER = (
    *("Fallnummer", "Aufnahme", "Alter", "Gr\u00f6\u00dfe", "CRP", "Leukozyten", "Kreatinin", "Uhrzeit"),
    *("Station", "Raucher", "Bemerkung", TARGET),
)
_WARDS = ("Chirurgie", "Innere", "Gyn\u00e4kologie", "Neurologie")
_START = date(2023, 1, 1)


@dataclass(frozen=True)
class Site:
    """One hospital. `ill`: the share of ill patients; `encoding`, `separator`: of its files."""

    name: str
    ill: float
    encoding: str
    separator: str


SITES = (
    Site("nord", 0.12, "cp1252", ";"),
    Site("mitte", 0.06, "utf-8-sig", "\t"),
    Site("sued", 0.015, "utf-16", ";"),
)


@dataclass(frozen=True)
class Rows:
    """A site's rows: the cells to write, labels `ill` (n,), and the same rows as plain numbers (n, d)."""

    cells: list[tuple[str, ...]]
    ill: NDArray[np.int64]
    features: NDArray[np.float64]


def make_rows(site: Site, count: int, seed: int) -> Rows:
    """Return `count` rows of a site, which follow from `seed`."""
    rng = np.random.default_rng(seed)
    age, height = rng.normal(62, 15, count), rng.normal(1.71, 0.09, count)
    crp, leukocytes = np.exp(rng.normal(2.0, 0.9, count)), rng.normal(8400, 2300, count).clip(900)
    creatinine, hour = np.exp(rng.normal(0.0, 0.35, count)), rng.uniform(0, 24, count)
    ward, smoker, day = rng.integers(0, 4, count), rng.random(count) < 0.3, rng.integers(0, 365, count)
    risk = (
        *(0.85 * (age - 62) / 15, 0.02 * (crp - 11), 0.3 * (leukocytes - 8400) / 2300),
        *(0.8 * (creatinine - 1.06), 0.5 * smoker, np.array([0.0, 0.3, -0.4, 0.2])[ward]),
    )
    logit = 1.4 * np.sum(risk, axis=0)
    ill = (rng.random(count) < 1 / (1 + np.exp(-(logit + _offset(logit, site.ill))))).astype(np.int64)
    absent = rng.random((count, 3)) < 0.04
    words = rng.integers(0, len(NO_VALUE), (count, 3))

    def cell(row: int, place: int, text: str) -> str:
        return NO_VALUE[words[row, place]] if absent[row, place] else text

    cells: list[tuple[str, ...]] = [
        (
            f"{site.name[0].upper()}{seed:03d}-{row:06d}",
            f"{_START + timedelta(days=int(day[row])):%d.%m.%Y}",
            f"{age[row]:.0f}",
            f"{height[row]:.2f}".replace(".", ","),
            cell(row, 0, f"{crp[row]:.1f}".replace(".", ",")),
            cell(row, 1, f"{leukocytes[row]:,.0f}".replace(",", ".")),
            cell(row, 2, f"{creatinine[row]:.2f}".replace(".", ",")),
            f"{int(hour[row]):02d}:{int(hour[row] % 1 * 60):02d}",
            _WARDS[ward[row]],
            "ja" if smoker[row] else "nein",
            f"Verlauf {row}: unauff\u00e4llig, n\u00e4chste Kontrolle in {rng.integers(1, 90)} Tagen",
            "ja" if ill[row] else "nein",
        )
        for row in range(count)
    ]
    numbers = np.column_stack([crp, leukocytes, creatinine])
    filled = np.where(absent, numbers.mean(0), numbers)
    features = np.column_stack(
        [day, age, height, filled, absent, hour, *(ward == place for place in range(4)), smoker]
    )
    return Rows(cells, ill, features.astype(np.float64))


def _offset(logit: NDArray[np.float64], share: float) -> float:
    """Return the offset that makes the mean of sigmoid(logit + offset) equal to `share`, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.mean(1 / (1 + np.exp(-(logit + middle)))) < share else (low, middle)
    return low


def write(path: Path, site: Site, rows: Rows) -> Path:
    """Write rows to `path` as the site's system exports them; return `path`."""
    with path.open("w", encoding=site.encoding, newline="") as file:
        for line in (HEADER, *rows.cells):
            file.write(site.separator.join(line) + "\r\n")
    return path
