"""Texts and lists as vectors."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.data.encoding import encode
from node.data.files.csv_and_parquet import Limits, read_frame
from node.data.sides import RowDraws
from node.data.text.hashing import hashed
from tests.own_data import TARGET, schema, told

ROWS = [
    ("Chest pain, since Monday", "ill", [3.0, 4.0]),
    ("no complaints", "well", [0.0, -2.0]),
    ("chest  PAIN since monday!", "ill", None),
    ("", "well", [0.0, 0.0]),
]
TEXT = {"name": "note", "kind": "text", "width": 64}
LISTS = {"name": "lab", "kind": "embedding", "width": 2}


def table_of(*columns):
    return schema({"kind": "table", "target": TARGET, "columns": list(columns)})


@pytest.fixture
def rows(tmp_path):
    """Writes the rows, with these lists, as a Parquet file."""

    def rows(lists=None, path=tmp_path / "rows.parquet"):
        notes, outcomes, kept = zip(*ROWS, strict=True)
        lab = pa.array(kept if lists is None else lists, pa.list_(pa.float32()) if lists is None else None)
        pq.write_table(pa.table({"note": notes, "outcome": outcomes, "lab": lab}), path)
        return path

    return rows


def test_a_text_is_a_vector_of_its_words_and_pairs_of_words(rows):
    found = encode(table_of(TEXT), read_frame(rows(), None))
    first, other, again, empty = found.x
    assert np.array_equal(first, again)  # case, white space and marks do not count
    assert not empty.any()
    assert np.linalg.norm(found.x, axis=1).tolist() == pytest.approx([2, 2, 2, 0])
    assert abs(float(first @ other)) < 2
    assert found.report.entries[1].remark == "1 missing, all features 0; by its words, as 64 features"


def test_what_a_term_adds_is_fixed():
    """Members of all versions hash alike: `printf "chest" | b2sum -l 64` says 38..., 43... and 8d...."""
    (found,) = hashed(["Chest pain"], 16).tolist()
    assert {place: value for place, value in enumerate(found) if value} == {12: -1.0, 1: 1.0, 6: 1.0}


def test_lists_of_numbers_count_by_their_direction(rows):
    found = encode(table_of(LISTS), read_frame(rows(), None))
    assert found.x.tolist() == pytest.approx(np.array([[1.2, 1.6], [0, -2], [0, 0], [0, 0]]))
    both = encode(table_of(TEXT, LISTS), read_frame(rows(), ["outcome", "note", "lab"]))
    assert both.x.shape == (4, 66)


@pytest.mark.parametrize(
    ("lists", "complaint"),
    [
        ([[1.0, 2.0], [1.0], None, [1.0, 2.0]], "row 2, column 'lab': no list of 2 numbers"),
        ([None, [1.0, 2.0], [float("nan"), 1.0], [1.0, 2.0]], "row 3, column 'lab': no list of 2 numbers"),
        ([[1.0, None], None, None, None], "row 1, column 'lab': no list of 2 numbers"),
        ([1.0, 2.0, 3.0, 4.0], "column 'lab': single values; allowed: a list of 2 numbers"),
        ([["a"], ["b"], None, None], "column 'lab': list<element: string>; allowed: a list of 2 numbers"),
    ],
)
def test_cells_that_are_no_such_lists_are_named(rows, lists, complaint):
    assert complaint in told(lambda: encode(table_of(LISTS), read_frame(rows(lists), None)))


def test_a_list_is_no_value_of_another_kind(rows):
    number = {"name": "lab", "kind": "number", "mean": 0.0, "std": 1.0}
    assert "column 'lab': list<element: float> is no kind of value for a feature" in told(
        lambda: encode(table_of(number), read_frame(rows(), None))
    )


def test_a_page_of_one_number_does_not_unfold(tmp_path):
    path = tmp_path / "rows.parquet"
    column = pa.array([[0.0] * 10_000] * 100, pa.list_(pa.float64()))
    pq.write_table(pa.table({"lab": column, "y": list(range(100))}), path)
    assert path.stat().st_size < 1 << 17
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)  # no page can be read any more: the head alone says it
    path.write_bytes(content)
    assert "has more than 1048576 bytes" in told(read_frame, path, None, Limits(10**6, 1 << 20))


def test_rows_that_differ_in_a_list_alone_have_draws_of_their_own(rows):
    alike = [[1.0, 2.0], [1.0, 3.0], [1.0, 2.0], None]
    draws = read_frame(rows(alike), ["outcome"], drawing=RowDraws(0)).draws
    other = read_frame(
        rows([[1.0, 2.0], [1.0, 9.0], [1.0, 2.0], None]), ["outcome"], drawing=RowDraws(0)
    ).draws
    assert (draws == other).tolist() == [True, False, True, True]


def test_a_folder_of_texts_is_a_table(tmp_path):
    for name, outcome, text in (
        ("1", "ill", "chest pain"),
        ("2", "well", "no complaints"),
        ("3", "well", ""),
    ):
        (tmp_path / outcome).mkdir(exist_ok=True)
        (tmp_path / outcome / f"{name}.txt").write_text(text)
    (tmp_path / "well" / ".hidden.txt").write_text("not read")
    whole = schema(
        {
            "kind": "table",
            "target": {"name": "class", "kind": "classes", "values": ["ill", "well"]},
            "columns": [{"name": "text", "kind": "text", "width": 16}],
        }
    )
    found = encode(whole, read_frame(tmp_path, ["class", "text"], drawing=RowDraws(0)))
    assert (found.x.shape, found.y.tolist(), len(set(found.draws.tolist()))) == ((3, 16), [0, 1, 1], 3)
    for content, complaint in ((b"\xff\xff", "1.txt is not utf-8 text"), (b"\0", "1.txt has a zero byte")):
        (tmp_path / "ill" / "1.txt").write_bytes(content)
        assert complaint in told(read_frame, tmp_path, None)
