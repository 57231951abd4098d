"""Whose rows they are: names, blank ones, one side for each person, and which rows of a person are used."""

import csv
import hmac
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from node.data.dataset import load_dataset
from node.data.files.csv_and_parquet import read_frame
from node.data.in_memory import rows_of
from node.data.persons import chosen_rows, nearly_equal
from node.data.sides import RowDraws
from node.task.dialect import Dialect
from node.task.load import read_task
from node.task.parameters import canonical_parameters
from tests.own_data import IMAGES, TABLE, picture, told

MODEL = {"class": "node.models:Linear", "args": {"inputs": 7, "outputs": 2}}
DP_SGD = {"mechanism": "dp-sgd"}


def task_of(privacy=DP_SGD, seed=0, fraction=0.3, **data):
    return read_task(
        {
            "task": {"name": "t", "seed": seed},
            "model": MODEL,
            "data": {"person": "who", "test_fraction": fraction, **data},
            "privacy": privacy,
        }
    )


def named(path, dialect=None, *, own=False):
    """The name of each row's person, None for a row without one."""
    drawing = RowDraws(0, "who", blank_is_own=own)
    found = read_frame(path, None, dialect=dialect or Dialect(), drawing=drawing).persons
    return [found.names[one] if one < len(found.names) else None for one in found.numbers]


@pytest.fixture
def written(tmp_path):
    def write(*rows, header=("who", "a", "y"), name="rows.csv"):
        text = io.StringIO()
        csv.writer(text).writerows([header, *rows])
        (tmp_path / name).write_text(text.getvalue())
        return tmp_path / name

    return write


def test_names_are_trimmed_and_otherwise_exact(written):
    path = written((" 07", 1, 0), ("7", 2, 1), ("07 ", 3, 0), ("Ada", 4, 1), ("ada", 5, 0))
    assert named(path) == ["07", "7", "07", "Ada", "ada"]


def test_names_in_every_kind_of_file(tmp_path):
    """Whole numbers of 19 digits are not read as floats, which would make two persons one."""
    large = 9_007_199_254_740_993
    columns = {"who": pa.array([large, large - 1, large], pa.int64()), "a": [1, 2, 3], "y": [0, 1, 0]}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=1)
    assert named(tmp_path / "rows.parquet") == [str(large), str(large - 1), str(large)]
    pq.write_table(pa.table({**columns, "who": [5.0, None, 5.0]}), tmp_path / "gaps.parquet")
    assert named(tmp_path / "gaps.parquet", own=True) == ["5", None, "5"]
    book = Workbook()
    for row in (["who", "a", "y"], ["p 1", 1, 0], [12, 2, 1], ["p 1", 3, 0]):
        book.active.append(row)
    book.save(tmp_path / "rows.xlsx")
    assert named(tmp_path / "rows.xlsx") == ["p 1", "12", "p 1"]
    for names in (np.array([3, 4, 3]), np.array([3.0, 4.0, 3.0]), np.array([" 3", "4", "3"])):
        np.savez(tmp_path / "rows.npz", x=np.zeros((3, 2)), y=[0, 1, 0], who=names)
        dataset = load_dataset(task_of(fraction=1e-9), tmp_path / "rows.npz", None)
        assert dataset.persons.train.tolist() == [0, 1, 0]


def test_blank_names_are_refused_by_row_or_persons_of_their_own(written):
    path = written(("a", 1, 0), ("", 2, 1), ("k.A.", 3, 0), ("n/a", 4, 1), ("a", 5, 0))
    dialect = Dialect(missing=("k.A.",))
    line = told(named, path, dialect)
    assert "column 'who': no person in row 2, 3, 4; write whose they are, or --blank-person own" in line
    assert named(path, dialect, own=True) == ["a", None, None, None, "a"]
    many = written(*[("", row, 0) for row in range(7)])
    assert "row 1, 2, 3, 4, 5 and 2 more;" in told(named, many)


def test_the_column_is_no_feature_and_must_be_there(written, tmp_path):
    path = written(*[(f"p{row}", row, row % 2) for row in range(20)])
    assert load_dataset(task_of(), path, None).train_x.shape[1] == 1
    other = written(("x", 1, 0), ("y", 2, 1), header=("ward", "a", "y"))
    assert "has no column 'who' of single values, which data.person names; it has 'ward, a, y'" in told(
        load_dataset, task_of(), other, None
    )
    alone = written(("x", 0), ("y", 1), header=("who", "y"))
    assert "has no column beside the target 'y' to learn from; add at least one" in told(
        load_dataset, task_of(), alone, None
    )
    np.savez(tmp_path / "rows.npz", x=np.zeros((3, 2)), y=[0, 1, 0], who=[[1], [2], [3]])
    assert "who is (3, 1); allowed for data.person" in told(
        load_dataset, task_of(), tmp_path / "rows.npz", None
    )


def sides(path, **changed):
    """The person of each training row, and of each row held back, as the first feature says."""
    dataset = load_dataset(task_of(**changed), path, None)
    train, test = (set(part[:, 0].int().tolist()) for part in (dataset.train_x, dataset.test_x))
    return dataset, train, test


def crowd(rng, persons):
    counts = rng.integers(1, 12, persons)
    return [
        (f"p{one}", one, number, number % 2) for one, count in enumerate(counts) for number in range(count)
    ]


def test_all_rows_of_a_person_are_on_one_side_which_no_other_person_moves(written):
    rng = np.random.default_rng(0)
    rows, header = crowd(rng, 60), ("who", "person", "a", "y")
    _, train, test = sides(written(*rows, header=header))
    assert not train & test
    assert len(train | test) == 60
    assert 6 < len(test) < 32  # 18 expected
    shuffled = [rows[place] for place in rng.permutation(len(rows))]
    fewer = [row for row in shuffled if row[1] not in (3, 17)]
    _, train_of_fewer, test_of_fewer = sides(written(*fewer, header=header))
    assert (train_of_fewer, test_of_fewer) == (train - {3, 17}, test - {3, 17})
    _, other_train, _ = sides(written(*rows, header=header), seed=1)
    assert other_train != train


def test_the_draw_of_a_person_is_frozen():
    digest = hmac.digest(b"7", b"person" + (2).to_bytes(8, "big") + b"p1", "sha256")
    assert RowDraws(7).of_persons(["p1"]).tolist() == [int.from_bytes(digest[:8], "big")]


def test_rows_without_a_name_have_their_own_draw(written):
    rows = [("", number, number % 2) for number in range(100)]
    path = written(*rows)
    by_person = load_dataset(task_of(blank_person="own"), path, None)
    plain = {"features": ["a"], "target": "y", "test_fraction": 0.3}
    alone = load_dataset(read_task({"task": {"name": "t"}, "model": MODEL, "data": plain}), path, None)
    assert by_person.train_x[:, 0].tolist() == alone.train_x[:, 0].tolist()
    assert by_person.units == len(by_person.train_y)


def test_at_most_so_many_rows_of_a_person_are_trained_on(written):
    rows, header = crowd(np.random.default_rng(1), 40), ("who", "person", "a", "y")
    path = written(*rows, header=header)
    dataset, train, _ = sides(path, privacy={**DP_SGD, "rows_per_person": 3})
    whole, _, _ = sides(path, privacy={"mechanism": "none"})
    of = np.bincount(dataset.persons.train.numpy())
    there = np.bincount([row[1] for row in rows], minlength=40)
    assert of.tolist() == np.minimum(there[sorted(train)], 3).tolist()
    assert (dataset.persons.most, dataset.units, dataset.persons.count) == (3, len(train), len(train))
    assert (whole.persons.most, whole.units) == (None, len(whole.train_y))
    unused = len(whole.train_y) - len(dataset.train_y)
    assert dataset.description.endswith(f"; {unused} beyond 3 of a person not trained on")
    assert f"{len(rows)} rows of 40 persons" in dataset.description
    assert dataset.test_x.equal(whole.test_x), "all rows held back are judged"
    assert load_dataset(task_of(), path, None).persons.most == 8


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=30), st.integers(1, 3))
def test_the_rows_with_the_lowest_draws_are_used_equal_ones_by_place(rows, most):
    persons = np.array([person for person, _ in rows], np.int64)
    draws = np.array([draw for _, draw in rows], np.uint64)
    used = chosen_rows(persons, draws, most)
    for person in set(persons.tolist()):
        places = [place for place, (whose, _) in enumerate(rows) if whose == person]
        ranked = sorted(places, key=lambda place: (rows[place][1], place))
        assert [place for place in places if used[place]] == sorted(ranked[:most])


def test_nearly_equal_names():
    names = ["P-007", "p7", "P 7", "Müller", "MÜLLER", "8", "08", "80", "?", "!"]
    assert nearly_equal(names) == [("P-007", "p7"), ("P-007", "P 7"), ("Müller", "MÜLLER"), ("8", "08")]


def test_part_of_the_rows_keeps_their_persons(written):
    path = written(*[(f"p{row // 2}", row, row % 2) for row in range(20)])
    dataset = load_dataset(task_of(fraction=1e-9), path, None)
    some = dataset.having(dataset.persons.train >= 7)
    assert (some.persons.train.tolist(), some.units) == ([0, 0, 1, 1, 2, 2], 3)


def test_what_says_nothing_about_persons_is_refused(tmp_path):
    rows = rows_of((np.zeros((4, 2)), [0, 1, 0, 1]))
    assert "data.person = 'who' is refused for rows in memory" in told(load_dataset, task_of(), rows, None)
    assert "--shard 0/3 is refused with data.person = 'who'" in told(load_dataset, task_of(), rows, (0, 3))
    for name in ("blue", "red"):
        picture(tmp_path / "scans" / name / "1.png", "white")
    line = told(load_dataset, task_of(schema=IMAGES), tmp_path / "scans", None)
    assert "data.person = 'who' is refused for images, which have no columns" in line


@pytest.mark.parametrize(
    ("data", "privacy", "said"),
    [
        ({"person": "age", "schema": TABLE}, {}, "data.person = 'age' is refused: it is learned from"),
        ({"person": "outcome", "schema": TABLE}, {}, "data.person = 'outcome' is refused"),
        ({"person": "a", "features": ["a", "b"]}, {}, "data.person = 'a' is refused"),
        ({"person": "y", "target": "y"}, {}, "data.person = 'y' is refused"),
        ({"blank_person": "own"}, {}, "data.blank_person = 'own' has no effect without data.person"),
        (
            {},
            {**DP_SGD, "rows_per_person": 4},
            "privacy.rows_per_person = 4 has no effect without data.person",
        ),
        ({"person": "who"}, {"mechanism": "ldp", "rows_per_person": 4}, "privacy.rows_per_person = 4 has no"),
        ({"person": "who"}, {**DP_SGD, "rows_per_person": 0}, "privacy.rows_per_person = 0 is refused"),
    ],
)
def test_keys_about_persons_that_contradict_others(data, privacy, said):
    line = told(read_task, {"task": {"name": "t"}, "model": MODEL, "data": data, "privacy": privacy})
    assert said in line


def test_a_person_is_the_unit_where_rows_are_clipped_alone():
    units = {name: task_of({"mechanism": name}).unit for name in ("none", "ldp", "dp-sgd")}
    assert units == {"none": "row", "ldp": "row", "dp-sgd": "person"}


def test_members_agree_on_the_column_and_on_how_many_rows_of_a_person_are_used():
    plain = json.loads(canonical_parameters(task_of(), [], None))
    assert (plain["data"]["person"], plain["privacy"]["rows_per_person"]) == ("who", 8)
    same = task_of({**DP_SGD, "rows_per_person": 8}, blank_person="own")
    assert json.loads(canonical_parameters(same, [], None)) == plain
    other = task_of({**DP_SGD, "rows_per_person": 4})
    assert json.loads(canonical_parameters(other, [], None)) != plain
    without = read_task({"task": {"name": "t"}, "model": MODEL, "privacy": DP_SGD})
    rows = json.loads(canonical_parameters(without, [], None))
    assert ("person" in rows["data"], "rows_per_person" in rows["privacy"]) == (False, False)
