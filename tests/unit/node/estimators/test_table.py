"""Frames and arrays as columns, and labels as words: what is read, and what is refused in one line."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from node.estimators.table import check_frame, frame_like, label_words, labels_of, table_of
from node.system.errors import ConfigError

DAY = datetime.date(1970, 1, 11)


@pytest.mark.parametrize(
    ("column", "kind", "numbers"),
    [
        (pa.array([1, None, 3]), "number", [1, np.nan, 3]),
        (pa.array([1.5, float("nan"), 3], pa.float32()), "number", [1.5, np.nan, 3]),
        (pa.array([DAY, None, DAY]), "number", [10, np.nan, 10]),
        (pa.array([True, None, False]), "boolean", [1, np.nan, 0]),
        (pa.array(["a", None, "b"]), "text", []),
        (pa.array(["a", None, "b"]).dictionary_encode(), "text", []),
        (pa.array([None, None, None]), None, []),
    ],
)
def test_a_column_of_a_frame_is_numbers_truth_values_or_text(column, kind, numbers):
    table = table_of(pa.table({"a": column}), ["a"])
    own = table.own("a")
    assert (own.kind, own.gaps) == (kind, True)
    assert own.numbers == pytest.approx(numbers, nan_ok=True)


def test_only_text_that_ten_rows_have_is_told_to_others():
    words = ["many"] * 10 + ["rare"] * 9
    assert table_of(pa.table({"n": [0] * 19, "w": words}), ["n", "w"]).words() == [(1, "many")]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([[1], [2]]), "column 'a' of X holds 'list<item: int64>'; allowed: numbers"),
        (pa.array([1.0, np.inf]), "column 'a' of X has infinity, or a number beyond"),
        (pa.array(["x" * 61] * 10), "column 'a' has 'xxx.*at most 60 bytes"),
        (pa.array([str(n // 10) for n in range(10250)]), "column 'a' has 1025 different words"),
    ],
)
def test_a_column_that_is_refused(column, told):
    with pytest.raises(ConfigError, match=told):
        table_of(pa.table({"a": column}), ["a"]).words()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([2, 1, 2]), ["i2", "i1"]),
        (np.array([2, 1], np.uint8), ["i2", "i1"]),
        (np.array([0.5, 1.0]), ["f0.5", "f1.0"]),
        (np.array([True, False]), ["bTrue", "bFalse"]),
        (np.array(["b", "a"]), ["sb", "sa"]),
        (np.array(["b", "a"], object), ["sb", "sa"]),
        (np.array([10, 9], object), ["i10", "i9"]),
    ],
)
def test_labels_come_back_in_their_order_and_type(given, words):
    assert label_words(given) == words
    labels = labels_of(words)
    back = labels.array(given.dtype)
    assert list(back) == sorted(set(given.tolist()))
    assert back.dtype.kind == {"O": "i" if labels.tag == "i" else "O"}.get(given.dtype.kind, given.dtype.kind)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["i1", "s1"], "labels of several types"),
        (["sa"], "one class, 'a'; a classifier needs 2"),
        (["sa", "sNA"], "the label 'NA' is refused"),
        (["sa", "s a"], "the label ' a' is refused"),
    ],
)
def test_labels_that_are_refused(words, told):
    with pytest.raises(ConfigError, match=told):
        labels_of(words)


@pytest.mark.parametrize(("y", "bad"), [(["a", 1], "1"), ([DAY, DAY], r"datetime\.date\(1970, 1, 11\)")])
def test_what_is_neither_text_nor_a_number_is_no_label(y, bad):
    with pytest.raises(ConfigError, match=f"y holds {bad}; allowed: labels that are all text"):
        label_words(np.array(y, object))


FRAMES = {
    "number": [1, None, 3],
    "boolean": [True, None, False],
    "text": ["a", None, "b"],
    "date": [DAY, None, DAY],
    "none": [None] * 3,
}


@pytest.mark.parametrize("kind", ["pandas", "arrow in pandas", "polars"])
def test_a_data_frame_is_read_and_given_back_in_its_kind(kind):
    package = pytest.importorskip(kind.split()[-1])
    given = package.DataFrame(FRAMES)
    if kind.startswith("arrow"):
        given = given.convert_dtypes(dtype_backend="pyarrow")
    table = table_of(given, list(FRAMES))
    assert [table.kind(name) for name in FRAMES] == ["number", "boolean", "text", "number", None]
    assert all(table.own(name).gaps for name in FRAMES)
    back = frame_like(given, {"prediction": np.arange(3)})
    assert (type(back), list(back["prediction"])) == (type(given), [0, 1, 2])


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (pa.table([[1, 2], [3, 4]], names=["a", "a"]), "X has two columns called 'a'; rename one"),
        (pa.table({"a": [1]}), "X has 1 row and 1 column; allowed: 2 rows or more, and a column"),
        (pa.table({"a": []}), "X has 0 rows"),
        (pa.table({}), "X has 0 rows and 0 columns"),
    ],
)
def test_a_frame_that_is_refused(columns, told):
    with pytest.raises(ConfigError, match=told):
        check_frame(columns)
