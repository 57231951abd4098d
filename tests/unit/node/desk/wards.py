"""A folder with the data of a ward, in which a desk works."""

from __future__ import annotations

import random
from pathlib import Path


def ward_csv(path: Path, rows: int = 300) -> Path:
    """Writes a table of made-up patients: age and lactate say who died."""
    draw = random.Random(1)
    lines = ["age,sex,lactate,bed,outcome"]
    for bed in range(rows):
        age, lactate = draw.gauss(61, 17), draw.gauss(2, 1)
        died = age / 17 + lactate + draw.gauss(0, 1) > 6
        lines.append(f"{age:.0f},{draw.choice('mf')},{lactate:.2f},{bed},{'died' if died else 'alive'}")
    path.write_text("\n".join(lines) + "\n")
    return path
