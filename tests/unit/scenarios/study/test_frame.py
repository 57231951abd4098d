"""A sweep as one table: its rows, its columns and their types, and the files that hold it."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from scenarios.study.arms import Arm
from scenarios.study.cells import Outcome
from scenarios.study.frame import CSV, PARQUET, write_frame
from scenarios.study.sweep import Sweep, collect
from tests.own_studies import NOISED, PLAIN, STUDY


def outcome(cell):
    facts = {"epsilon": 2 if cell.seed == 4 else 2.5, "private": True, "unit": None}
    if cell.arm == "noised":
        facts |= {"radius": 1, "mixed": "none" if cell.seed == 4 else 3}
    figures = (0.5, 0.25 * cell.seed)
    clock = (0.5, 1.25) if cell.arm == "noised" else ()
    return Outcome(figures, facts, 1.5, {"loss": (3.0, 2.0), "pixels": (0.0,) * 5}, clock)


@pytest.fixture
def sweep() -> Sweep:
    arms = (PLAIN, Arm(NOISED, {"epsilon": 8, "mechanism": "nbafl", "seed": "own"}))
    return collect(STUDY, arms, (4, 5), outcome)


def test_a_row_for_each_arm_seed_and_round(sweep):
    rows = sweep.frame().to_pylist()
    keys = [(row["arm"], row["seed"], row["round"], row["figure"]) for row in rows]
    assert keys[:4] == [
        ("plain", 4, 1, 0.5),
        ("plain", 4, 2, 1.0),
        ("plain", 5, 1, 0.5),
        ("plain", 5, 2, 1.25),
    ]
    assert len(keys) == 8
    assert [row["loss"] for row in rows] == [3.0, 2.0] * 4
    assert {row["seconds"] for row in rows} == {1.5}
    assert [row["clock"] for row in rows] == [None] * 4 + [0.5, 1.25] * 2


def test_factors_come_before_facts_and_columns_have_the_type_of_their_values(sweep):
    frame = sweep.frame()
    assert frame.column_names[:6] == ["arm", "epsilon", "mechanism", "seed (factor)", "seed", "round"]
    assert frame["epsilon"].to_pylist() == [None] * 4 + [8] * 4
    assert frame["epsilon (fact)"].to_pylist() == [2.0, 2.0, 2.5, 2.5] * 2
    assert frame["radius"].to_pylist() == [None] * 4 + [1] * 4
    assert "pixels" not in frame.column_names  # not one number a round
    schema = sweep.frame().schema
    types = {name: schema.field(name).type for name in schema.names}
    assert (types["epsilon"], types["epsilon (fact)"]) == (pa.int64(), pa.float64())
    assert (types["private"], types["mechanism"]) == (pa.bool_(), pa.string())
    assert sweep.frame()["mixed"].to_pylist() == [None] * 4 + ["none"] * 2 + ["3"] * 2


def test_csv_and_parquet_hold_the_table(sweep, tmp_path):
    frame = sweep.frame()
    write_frame(tmp_path, frame)
    assert {path.name for path in tmp_path.iterdir()} == {CSV, PARQUET}
    assert pyarrow.parquet.read_table(tmp_path / PARQUET).equals(frame)
    read = pyarrow.csv.read_csv(tmp_path / CSV)
    assert read["figure"].to_pylist() == frame["figure"].to_pylist()
    assert read.column_names == frame.column_names
