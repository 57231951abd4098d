"""Whether statistics were computed before on nearly the same rows, which both results together would show.

Beside the key stands a file with a sketch of the rows of each run, and never the rows: each row's digest
under a secret salt is added to one of BUCKETS sums modulo 2^64, chosen by the digest. Rows that are in one
run alone change their sums and no others: with b changed sums they are about -BUCKETS log(1 - b / BUCKETS).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.jobs.statistics.columns import Table
from node.storage.owners_files import read_limited
from node.storage.whole_files import replace_file
from node.system.errors import ConfigError, counted, one_line
from node.system.system import SYSTEM, System

BUCKETS = 512
_RUNS = 16
"""The runs that the file keeps, the last ones."""
_SALT_BYTES = 16
_MOST_BYTES = 1 << 20
_SUFFIX = ".counted"

Sums = NDArray[np.uint64]


@dataclass(frozen=True)
class CountedRows:
    """The file beside a key: its secret salt, and of each run a sketch (BUCKETS,) of the rows."""

    path: Path
    salt: bytes
    runs: tuple[Sums, ...]

    @classmethod
    def beside(cls, key_file: Path, system: System = SYSTEM) -> CountedRows:
        """Reads the file beside a key; an empty one with a new salt if there is none.

        Raises ConfigError if it cannot be read.
        """
        path = key_file.with_name(key_file.name + _SUFFIX)
        content = read_limited(path, _MOST_BYTES)
        if content is None:
            return cls(path, system.entropy(_SALT_BYTES), ())
        try:
            found = json.loads(content)
            runs = [np.frombuffer(bytes.fromhex(run), "<u8").astype(np.uint64) for run in found["runs"]]
            if any(len(run) != BUCKETS for run in runs):
                raise ValueError
            return cls(path, bytes.fromhex(found["salt"]), tuple(runs))
        except (ValueError, TypeError, KeyError):
            raise ConfigError(
                f"{one_line(str(path))}, which tells on what rows statistics were computed, is damaged: put "
                "a copy back, or remove it, and nearly the same rows are not noticed"
            ) from None

    def sketch(self, table: Table) -> Sums:
        """Returns the sums (BUCKETS,) of a member's rows."""
        rows = np.stack([table[name] for name in sorted(table)], axis=1) + 0.0  # -0 is 0
        rows[np.isnan(rows)] = np.nan
        digests = b"".join(
            hashlib.blake2b(row.tobytes(), digest_size=16, key=self.salt).digest() for row in rows
        )
        words = np.frombuffer(digests, "<u8").reshape(-1, 2)
        sums = np.zeros(BUCKETS, np.uint64)
        np.add.at(sums, (words[:, 0] % BUCKETS).astype(np.int64), words[:, 1])
        return sums

    def warning(self, sketch: Sums, few: int) -> str:
        """Returns a line if an earlier run had all but few of these rows; empty if none had."""
        changed = [int((sketch != run).sum()) for run in self.runs]
        rows = [round(-BUCKETS * math.log1p(-each / BUCKETS)) for each in changed if 0 < each < BUCKETS]
        if not rows or min(rows) >= few:
            return ""
        return (
            f"statistics were computed here before, on all but about {counted(min(rows), 'row')} of these: "
            "who has both results can subtract them, and reads what those rows add up to; wait until "
            f"{few} rows are new or gone"
        )

    def keep(self, sketch: Sums, system: System = SYSTEM) -> None:
        """Stores that statistics of these rows were opened."""
        others = [run for run in self.runs if not np.array_equal(run, sketch)]
        runs = [run.astype("<u8").tobytes().hex() for run in (*others, sketch)[-_RUNS:]]
        content = json.dumps({"salt": self.salt.hex(), "runs": runs})
        replace_file(self.path, (content.encode(),), durable=True, disk=system.disk)
