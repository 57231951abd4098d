"""What a node sums over its rows: by hand; the effect of one row; what is refused."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.agree.survey import absent_columns, survey
from node.data.sides import RowDraws
from node.task.agreed_sums import absence_part, class_part, norm, parts
from node.task.sections import AgreementSection
from tests.own_data import schema, told

UNIT = 2.0**-20
COLUMNS = [
    {"name": "age", "kind": "number", "mean": 50.0, "std": 20.0, "low": 0.0, "high": 100.0},
    {"name": "ward", "kind": "category", "values": ["east", "west", "north"]},
    {"name": "smoker", "kind": "boolean"},
    {"name": "seen", "kind": "date", "mean": 0.0, "std": 1.0, "low": -10.0, "high": 10.0},
]
CLASSES = {"name": "outcome", "kind": "classes", "values": ["ill", "well"]}
NUMBER = {"name": "outcome", "kind": "number", "mean": 0.0, "std": 1.0, "low": -4.0, "high": 4.0}
TABLE = {"kind": "table", "target": CLASSES, "columns": COLUMNS}
ARRAY = {"kind": "array", "target": CLASSES, "shape": [3], "mean": [0.0], "std": [1.0]}
HEADER = "age,ward,smoker,seen,outcome"


def of(folder: Path, rows: list[str], table=TABLE, unit: float = UNIT, most: int = 100) -> list[float]:
    path = folder / "rows.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return (survey(path, schema(table), unit, most) * unit).tolist()


def test_every_kind_of_column_by_hand(tmp_path):
    rows = ["25,east,yes,1970-01-06,ill", "?,south,no,,well", "200,west,,1969-12-22,well"]
    without_target = "50,east,no,1970-01-01,"  # not counted
    assert of(tmp_path, [*rows, without_target]) == [
        *(3, 2, -0.5 + 1.0, 0.25 + 1.0),  # rows; ages 25 and 200, which is cut to 100
        *(1, 1, 0),  # one of east that counts, one of west; south is not on the list
        2,
        *(2, 0.5 - 1.0, 0.25 + 1.0),  # days 5 and -10
        *(1, 2),  # one is ill, two are well
    ]
    table = {"kind": "table", "target": NUMBER, "columns": COLUMNS[1:2]}
    rows = ["1,east,yes,,2", "1,west,yes,,-8", "1,west,yes,,"]
    assert of(tmp_path, rows, table) == [2, 2, 0.5 - 1.0, 0.25 + 1.0, 1, 1, 0]


def row_text(age: int | None, ward: str, smoker: bool | None, day: int | None) -> str:
    seen = "" if day is None else f"1970-01-{day:02d}"
    said = {None: "", True: "yes", False: "no"}[smoker]
    return f"{'' if age is None else age},{ward},{said},{seen},well"


ROW = st.builds(
    row_text,
    st.none() | st.integers(-300, 300),
    st.sampled_from(["east", "west", "north", "elsewhere", ""]),
    st.none() | st.booleans(),
    st.none() | st.integers(1, 31),
)


@settings(deadline=None, max_examples=25)
@given(rows=st.lists(ROW, min_size=2, max_size=6), unit=st.sampled_from([1.0, 0.25, 2.0**-7, UNIT]))
def test_a_row_more_moves_the_sums_by_its_own_vector_and_no_further_than_the_norm(
    tmp_path_factory, rows, unit
):
    """The neighbouring relation itself, at every place: with the row, and without it."""
    folder = tmp_path_factory.mktemp("rows")
    kept = [*rows, "50,west,no,1970-01-01,ill"]
    everything = np.array(of(folder, kept, unit=unit))
    for place, row in enumerate(kept):
        moved = everything - np.array(of(folder, kept[:place] + kept[place + 1 :], unit=unit))
        assert np.linalg.norm(moved) <= norm(schema(TABLE)) * (1 + 1e-12)
        alone, twice = (np.array(of(folder, [row] * count, unit=unit)) for count in (2, 3))
        assert np.array_equal(twice - alone, moved), "what a row adds does not hang on the others"


def test_the_norm_is_reached(tmp_path):
    """A bound that no row comes near would waste noise: all columns are at an end of their range."""
    far = "100,east,yes,1970-01-11,ill"
    one, two = (np.array(of(tmp_path, [far] * count)) for count in (2, 3))
    assert np.linalg.norm(two - one) == pytest.approx(norm(schema(TABLE)))
    assert norm(schema(TABLE)) == math.sqrt(1 + 3 + 1 + 1 + 3 + 1)


@pytest.mark.parametrize("own", [True, False])
def test_arrays(tmp_path, own):
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 2, (50, 3, 4)), rng.normal(0, 3, 50)
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    places = 3 if own else 1
    scales = {"mean": [0.0] * places, "std": [1.0] * places, "low": [-4.0], "high": [4.0]}
    table = {"kind": "array", "target": {**NUMBER, "name": "y"}, "shape": [3, 4], **scales}
    found = survey(tmp_path / "rows.npz", schema(table), UNIT, 100) * UNIT
    u, v = np.clip(x / 4, -1, 1), np.clip(y / 4, -1, 1)
    expected = [50, 50, v.sum(), (v * v).sum()]
    for place in range(places):
        part = u[:, place] if own else u.reshape(50, -1)
        expected += [part.mean(axis=1).sum(), (part * part).mean(axis=1).sum()]
    assert found == pytest.approx(expected, abs=50 * UNIT)
    assert norm(schema(table)) == math.sqrt(1 + 3 + 2 * places)


def test_classes_of_arrays_and_too_many_classes(tmp_path):
    names = [f"c{number}" for number in range(101)]
    array = {"kind": "array", "shape": [1], "mean": [0.0], "std": [1.0], "low": [-1.0], "high": [1.0]}
    np.savez(tmp_path / "rows.npz", x=np.zeros((4, 1)), outcome=np.array(["c0", "c2", "c2", "c2"]))

    def of_classes(count):
        target = {"kind": "classes", "values": names[:count], "name": "outcome"}
        return schema({**array, "target": target})

    found = survey(tmp_path / "rows.npz", of_classes(3), UNIT, 100) * UNIT
    assert found.tolist() == [4, 0, 0, 1, 0, 3]
    assert class_part(of_classes(100)).width == 100
    assert class_part(of_classes(101)) is None
    assert norm(of_classes(101)) ** 2 == pytest.approx(norm(of_classes(100)) ** 2 - 1)


def test_parts_cover_all_sums_once_and_the_marks_of_lacking_columns_come_after_them():
    read = schema({**TABLE, "target": NUMBER})
    assert len(parts(schema(TABLE))) == 5
    places = [place for part in parts(read) for place in range(part.place.start, part.place.stop)]
    assert places == list(range(1 + 3 + 3 + 3 + 1 + 3))
    assert absence_part(read, LEAVING).start == len(places)


def without(column: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in column.items() if name not in names}


def test_what_is_refused(tmp_path):
    bare = {**TABLE, "columns": [without(COLUMNS[0], "low", "high")]}
    line = told(parts, schema(bare))
    unbounded = "has no low and high, so nothing bounds what one row adds to a sum"
    assert line.startswith(f"data.schema: 'age' {unbounded}")
    assert line.endswith("give a public range, as python -m node.init --agree writes it")
    assert told(parts, schema(ARRAY)).startswith(f"data.schema {unbounded}")
    images = {**ARRAY, "kind": "images", "shape": [1, 8, 8], "target": without(CLASSES, "name")}
    assert told(parts, schema(images)) == (
        "data.schema has no number and no category to agree on: learn with it as it is"
    )
    rows = tmp_path / "rows.csv"
    rows.write_text("\n".join([HEADER, *["50,east,yes,,ill"] * 7]) + "\n")
    assert told(survey, rows, schema(TABLE), UNIT, 6).endswith(
        "has 7 rows; allowed by agreement.records: at most 6; raise it at all peers"
    )
    assert told(survey, rows, schema({**TABLE, "kind": "table", "columns": [COLUMNS[2]]}), UNIT, 6)
    assert told(schema, {**ARRAY, "low": [0.0] * 3, "high": [1.0] * 3}) == (
        "data.schema.low has 3 numbers, high 3 and mean 1; allowed: low and high 1 each, or as many as mean"
    )
    two = told(schema, {**ARRAY, "low": [0.0] * 2, "high": [1.0] * 2})
    assert two.startswith("data.schema.low has 2 numbers;")


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"low": 1.0}, "low is given without high; allowed: both, or none"),
        ({"high": 1.0}, "high is given without low; allowed: both, or none"),
        ({"low": 2.0, "high": 2.0}, "low = 2 is refused beside high = 2; allowed: less than that"),
    ],
)
def test_ranges_that_are_none(changed, line):
    column = {**without(COLUMNS[0], "low", "high"), **changed}
    assert told(schema, {**TABLE, "columns": [column]}) == f"data.schema.columns.0 ('age').{line}"
    target = {**without(NUMBER, "low", "high"), **changed}
    assert told(schema, {**TABLE, "target": target}) == f"data.schema.target.{line}"
    lists = {name: [value] for name, value in changed.items()}
    assert told(schema, {**ARRAY, **lists}) == f"data.schema.{line}"


LEAVING = AgreementSection(records=100, leave_out_missing=True)


def test_a_lacking_column_counts_nothing_and_is_marked_by_a_number_that_no_row_moves(tmp_path):
    rows = ["25,yes,1970-01-06,ill", "75,no,1970-01-01,well"]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["age,smoker,seen,outcome", *rows]) + "\n")
    read = schema(TABLE)
    absent = absent_columns(path, read, LEAVING)
    assert absent == {"ward"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    found = (survey(path, read, UNIT, 100, absent) * UNIT).tolist()
    whole = of(elsewhere, ["25,,yes,1970-01-06,ill", "75,,no,1970-01-01,well"])
    assert found == [*whole, 0, 100, 0, 0]
    assert norm(read) == math.sqrt(1 + 3 + 1 + 1 + 3 + 1), "the marks are no part of a row's vector"
    part = absence_part(read, LEAVING)
    assert (part.start, part.width, part.moved) == (len(whole), 4, 0)
    one_row_more = tmp_path / "more.csv"
    one_row_more.write_text(path.read_text() + "30,no,1970-01-02,well\n")
    assert (survey(one_row_more, read, UNIT, 100, absent) * UNIT).tolist()[part.place] == [0, 100, 0, 0]


def test_a_file_with_all_columns_marks_none_and_one_with_none_is_refused(tmp_path):
    of(tmp_path, ["25,east,yes,1970-01-06,ill", "75,west,no,1970-01-01,well"])
    read, path = schema(TABLE), tmp_path / "rows.csv"
    assert absent_columns(path, read, LEAVING) == frozenset()
    assert (survey(path, read, UNIT, 100, frozenset()) * UNIT).tolist()[-4:] == [0, 0, 0, 0]
    assert absent_columns(path, read, AgreementSection()) is None
    assert absence_part(read, AgreementSection()) is None
    path.write_text("id,outcome\n1,ill\n2,well\n")
    assert told(absent_columns, path, read, LEAVING).endswith(
        "has no column of the task's schema; name the columns as the task does"
    )
    path.write_text("age,id\n1,1\n2,2\n")
    lacking = frozenset({"ward", "smoker", "seen"})
    assert "has no column 'outcome'" in told(survey, path, read, UNIT, 100, lacking)


BY_PERSON = RowDraws(0, "who", blank_is_own=True)


def of_persons(folder, rows, table=TABLE, unit=UNIT, most=100):
    """The sums over persons, who are named in front of each row."""
    path = folder / "persons.csv"
    path.write_text("\n".join([f"who,{HEADER}", *(f"{who},{row}" for who, row in rows)]) + "\n")
    return survey(path, schema(table), unit, most, drawing=BY_PERSON) * unit


def test_a_person_adds_the_mean_of_the_own_rows(tmp_path):
    one, two = "25,east,yes,1970-01-06,ill", "?,south,,,well"
    rows = [("a", one), ("b", two), ("a", "75,west,no,,well"), ("a", "50,east,,,"), ("", one)]
    assert of_persons(tmp_path, rows).tolist() == [
        *(3, 2, -0.5, 0.25 + 0.25),  # persons; those of ages 25 and 75, and 25: the mean of a is 0
        *(1.5, 0.5, 0),  # half of a is of east, and all of the one without a name
        *(2, 1.5, 0.75, 0.375),  # yes or no; days 5 of half of a, and of the other
        *(1.5, 1.5),
    ]


@given(st.lists(st.tuples(st.integers(0, 3), ROW), min_size=3, max_size=12), st.sampled_from([UNIT, 2.0**-3]))
@settings(deadline=None, max_examples=25)
def test_a_person_moves_the_sums_by_at_most_the_norm(tmp_path_factory, rows, unit):
    folder = tmp_path_factory.getbasetemp()
    rows = [*rows, (8, row_text(50, "east", True, 1)), (9, row_text(50, "west", True, 1))]
    whole = of_persons(folder, [(f"p{who}", row) for who, row in rows], unit=unit)
    for person in {who for who, _ in rows if who < 8}:
        others = of_persons(folder, [(f"p{who}", row) for who, row in rows if who != person], unit=unit)
        assert np.linalg.norm(whole - others) <= norm(schema(TABLE))


def test_arrays_of_persons(tmp_path):
    x = np.array([[2.0, 4.0], [0.0, 0.0], [1.0, 1.0]])
    np.savez(tmp_path / "rows.npz", x=x, outcome=["ill", "well", "well"], who=["a", "a", "b"])
    table = {**ARRAY, "shape": [2], "low": [-4.0], "high": [4.0]}
    found = survey(tmp_path / "rows.npz", schema(table), UNIT, 100, drawing=BY_PERSON) * UNIT
    u = x / 4
    rows = [u.mean(1), (u * u).mean(1)]
    assert found.tolist() == [2, *((part[:2].mean() + part[2]).item() for part in rows), 0.5, 1.5]


def test_too_many_persons_for_what_the_task_says(tmp_path):
    rows = [(f"p{number}", "25,east,yes,1970-01-06,ill") for number in range(5)]
    assert "has 5 persons; allowed by agreement.records: at most 4" in told(
        lambda: of_persons(tmp_path, rows, most=4)
    )
