"""The rounds of runs as one table, a row for each round: CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from node.observe.flat_record import Plain, flat
from node.runtime.record.artifacts import lines_of
from node.runtime.record.figures import line_values

TableRows = Sequence[dict[str, Plain]]


def table(folders: Sequence[Path]) -> list[dict[str, Plain]]:
    """Returns all rounds of the runs in `folders`, in their order; the column `run` has the folder."""
    return [
        {"run": str(folder), **flat(values)}
        for folder in folders
        for line in lines_of(folder)
        if (values := line_values(line)) is not None
    ]


def columns(rows: TableRows) -> list[str]:
    """Returns the names of all columns, in the order in which the rows bring them."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(rows: TableRows) -> bytes:
    """Returns the table as CSV with a header line: UTF-8, an empty cell for no value, booleans as 0 and 1."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {name: int(value) if isinstance(value, bool) else value for name, value in row.items()}
        )
    return text.getvalue().encode()


def as_parquet(rows: TableRows) -> bytes:
    """Returns the table as Parquet: numbers as int64 and double, texts as string, null for no value."""
    import pyarrow as pa  # noqa: PLC0415 - large, and only this format needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    names = columns(rows)
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), sink)
    return bytes(sink.getvalue())
