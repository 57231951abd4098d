"""All rounds of runs as one table, read back by other programs."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from node.report.tables import as_csv, as_parquet, table
from node.storage.folder_lock import HISTORY

FIRST = {"round": 1, "reason": None, "accuracy": 0.5, "missing": [], "metrics": {"auc": 0.75}}
SECOND = {"round": 2, "reason": "sums-timeout", "accuracy": 1, "missing": ["ab", "cd"], "ok": True}
LINES = [{**FIRST, "rolled_back": None}, {**SECOND, "metrics": {}}]


@pytest.fixture
def folders(tmp_path):
    found = [tmp_path / name for name in ("a", 'b, "c"')]
    for folder in found:
        folder.mkdir()
        text = "".join(f"{json.dumps(line)}\n" for line in LINES)
        (folder / HISTORY).write_text(f"{text}{{cut off")
    return found


def test_csv_has_a_row_for_each_round_of_each_run(folders):
    read = list(csv.DictReader(io.StringIO(as_csv(table(folders)).decode())))
    assert [(row["run"], row["round"]) for row in read] == [
        (str(folder), number) for folder in folders for number in ("1", "2")
    ]
    assert [row["missing"] for row in read[:2]] == ["", "ab cd"]
    assert [row["metrics.auc"] for row in read[:2]] == ["0.75", ""]
    assert [row["ok"] for row in read[:2]] == ["", "1"]
    assert read[0]["reason"] == ""


def test_parquet_keeps_types_and_missing_values(folders, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(as_parquet(table(folders)))
    read = pq.read_table(path)
    assert read.num_rows == 4
    assert str(read.schema.field("round").type) == "int64"
    assert str(read.schema.field("accuracy").type) == "double"
    assert read.column("reason").to_pylist() == [None, "sums-timeout"] * 2
    assert read.column("metrics.auc").to_pylist() == [0.75, None] * 2


def test_a_run_without_rounds_is_an_empty_table(tmp_path):
    assert as_csv(table([tmp_path])) == b"\n"
    assert len(as_parquet(table([tmp_path]))) > 0
