"""Each row is decided alone: frozen draws, files that grow, sides without rows or without a class."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from openpyxl import Workbook

from node.data.dataset import load_dataset
from node.data.files.csv_and_parquet import read_frame
from node.data.in_memory import rows_of
from node.data.reading import read_with_schema
from node.data.sides import RowDraws, held_back
from node.init.rate_search import searched_rate
from node.task.dialect import PLAIN as PLAIN_DIALECT
from node.task.dialect import Dialect
from node.task.load import read_task
from node.training.build import build_model
from node.training.figures.metric_words import figures_text
from node.training.trainer import make_trainer
from tests.own_data import IMAGES, picture, schema, told

SEED = 7
PLAIN = read_task({"task": {"name": "t"}, "model": {"class": "node.models:Linear"}})


def frame_draws(path, dialect=PLAIN_DIALECT, wanted=None):
    return read_frame(path, wanted, dialect=dialect, drawing=RowDraws(SEED)).draws.tolist()


def test_frozen_draws(write):
    """Computed by hand: HMAC-SHA256 under "7" of "row" and the cells, each after its length."""
    assert frame_draws(write('b,y,a\ncaf\u00e9,,1.50\n"caf\u00e9","",1.50\n')) == [0x8F3A608651475B98] * 2
    assert RowDraws(SEED).of_arrays(np.array([[0.5, -0.0]]), np.array([3.0])).tolist() == [0x332B68069EDC133C]
    assert RowDraws(SEED).of_files([write("no image", "a.png")]).tolist() == [0x43E35C11969FAEE8]


def test_the_type_that_parquet_gives_a_column_for_one_more_row_moves_no_other_row(tmp_path):
    def drawn(**columns):
        pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
        return frame_draws(tmp_path / "rows.parquet")

    day = np.datetime64("2026-01-10T10:00:00", "s")
    whole = drawn(a=[5, 5], b=pa.array([None, 7], pa.int64()), c=[0.1, 1.5], d=np.array([day, day]))
    assert (
        whole[0] == drawn(a=[5.0, None], b=[float("nan"), 1.0], c=[0.1, 2.0], d=[day.astype("M8[ns]")] * 2)[0]
    )
    assert drawn(a=[5, 6], b=[None, "x"], c=[0.1, 0.2])[0] == 0x5487FAB14877A0BE
    assert drawn(a=["5", "<6"], b=[None, "x"], c=["0.1", "0.2"])[0] == 0x5487FAB14877A0BE


def test_a_cell_that_is_no_unicode_moves_no_other_row(write):
    """The whole file is then read in the dialect's encoding."""
    text = "a,b\nna\u00efve,1\nx,2\n".encode()
    before, after = (
        frame_draws(write(one), Dialect(encoding="cp1252")) for one in (text, text + b"\xefs,3\n")
    )
    assert after[:2] == before


def test_a_workbook_and_columns_that_nobody_learns_from(tmp_path):
    book = Workbook()
    for row in (("b", "a"), (1, "x"), (None, "x"), (2, "x")):
        book.active.append(row)
    book.save(tmp_path / "rows.xlsx")
    found = frame_draws(tmp_path / "rows.xlsx", wanted=["a"])
    assert len(set(found)) == 3
    (tmp_path / "rows.csv").write_text("a,b\nx,1\nx,\nx,2\n")
    assert [found[0], found[2]] == frame_draws(tmp_path / "rows.csv", wanted=["a"])[::2]


def test_rows_without_a_target_and_images_that_cannot_be_read_shift_nobody(tmp_path):
    (tmp_path / "rows.csv").write_text("age,outcome\n1,ill\n2,\n3,well\n")
    table = {"target": {"name": "outcome", "kind": "classes", "values": ["ill", "well"]}, "kind": "table"}
    table |= {"columns": [{"name": "age", "kind": "number", "mean": 0.0, "std": 1.0}]}
    draws = read_with_schema(tmp_path / "rows.csv", schema(table), RowDraws(SEED)).draws.tolist()
    assert draws == frame_draws(tmp_path / "rows.csv")[::2]
    files = [picture(tmp_path / "scans" / "red" / f"{size}.png", (9, 9, 9), (size, 8)) for size in (4, 6, 8)]
    files[1].write_bytes(b"no image")
    draws = read_with_schema(tmp_path / "scans", schema(IMAGES), RowDraws(SEED)).draws
    assert draws.tolist() == RowDraws(SEED).of_files([files[0], files[2]]).tolist()


def test_an_array_is_drawn_alike_in_any_type_and_place(tmp_path):
    x, y = np.arange(24).reshape(12, 2), np.arange(12) % 3
    wanted = RowDraws(SEED).of_arrays(x, y).tolist()
    assert RowDraws(SEED).of_arrays(x.astype(np.uint8), y.astype(str)).tolist() == wanted
    assert RowDraws(SEED).of_arrays(x.astype(np.float64), y.astype("S1")).tolist() == wanted
    assert len(set(wanted)) == 12
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    stored, given = (load_dataset(PLAIN, data, None) for data in (tmp_path / "rows.npz", rows_of((x, y))))
    assert torch.equal(stored.test_x, given.test_x)


def test_the_share_that_is_held_back_and_the_seed():
    x, y = np.arange(10_000.0)[:, None], np.zeros(10_000)
    for fraction in (0.1, 0.5, 0.999):
        sides = held_back(RowDraws(0).of_arrays(x, y), fraction)
        assert abs(sides.mean() - fraction) < 0.02
    other = held_back(RowDraws(1).of_arrays(x, y), 0.5)
    assert 0.45 < (other == held_back(RowDraws(0).of_arrays(x, y), 0.5)).mean() < 0.55


# -- a side without rows, or without a class -----------------------------------------------------------


def rows_on_sides(train, test):
    """Returns x (n, 1) and y (n,): the targets `train` on the one side, `test` on the other."""
    x, y = [], [*train, *test]
    for position, target in enumerate(y):
        numbers = np.arange(1000.0 * position, 1000.0 * position + 100)[:, None]
        sides = held_back(RowDraws(0).of_arrays(numbers, np.full(100, target)), 0.5)
        x.append(numbers[np.flatnonzero(sides == (position >= len(train)))[0]])
    return np.array(x), np.array(y)


def judged(train, test, outputs=1):
    """Returns the data set of these rows, and its trainer."""
    model = {"class": "node.models:Linear", "args": {"inputs": 1, "outputs": outputs}}
    task = read_task({"task": {"name": "t"}, "model": model, "data": {"test_fraction": 0.5}})
    dataset = load_dataset(task, rows_of(rows_on_sides(train, test)), None)
    assert (len(dataset.train_y), len(dataset.test_y)) == (len(train), len(test))
    return dataset, make_trainer(task, build_model(task, dataset), dataset, 0, None)


def test_nothing_is_held_back_and_training_goes_on():
    dataset, trainer = judged([0.5, 1.5, 2.5], [])
    assert dataset.description.endswith("3 to train on, 0 held back for validation: too few rows to validate")
    start = trainer.vector()
    found = trainer.evaluate(start)
    assert (found.accuracy, found.loss, found.metrics, found.headline.value) == (None, None, {}, None)
    assert figures_text("validation", found.headline, found.metrics) == "too few rows to validate"
    for outputs, targets in (trainer.outputs(start), trainer.outputs_by_row(start)):
        assert (outputs.shape, targets.shape) == ((0, 1), (0,))
    assert np.isfinite(trainer.own_loss(start))
    assert searched_rate(read_task({"task": {"name": "t"}, "model": {"class": "a:B"}}), dataset) == 0.1


@pytest.mark.parametrize(
    ("train", "test", "enough"),
    [
        ([0.5, 1.5], [2.5], True),
        ([0.0, 1.0, 0.0], [0.0, 1.0], True),
        ([0.0, 1.0, 0.0], [0.0, 0.0], False),
        ([0.0, 0.0], [0.0], True),  # other peers may have the class that this one has no row of
        ([2.0, 0.0], [0.0, 2.0], True),
        ([0.0, 0.0], [0.0, 2.0], True),
    ],
)
def test_some_of_each_class_that_the_node_has_must_be_held_back(train, test, enough):
    dataset, trainer = judged(train, test, outputs=1 if 0.5 in train else 3)
    found = trainer.evaluate(trainer.vector())
    assert (dataset.validates, found.loss is not None, bool(found.metrics)) == (enough,) * 3
    assert dataset.description.endswith("for validation" if enough else ": too few rows to validate")


def test_nothing_to_train_on_is_one_line():
    line = told(judged, [], [0.5, 1.5, 2.5])
    assert line == (
        "rows in memory: all 3 rows are held back for validation, none is to train on; add rows, or lower "
        "data.test_fraction = 0.5 with all peers"
    )
