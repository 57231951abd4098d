"""For any rows: the encoding depends on the schema and the row alone."""

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from node.data.encoding import encode
from node.data.files.csv_and_parquet import read_frame
from node.task.data_schema import FARTHEST
from tests.own_data import COLUMNS, TABLE, schema, told

NAMES = ["outcome", *(column["name"] for column in COLUMNS)]
ROW = st.tuples(
    st.sampled_from(["ill", "well"]),
    st.one_of(st.just(""), st.floats(-1e9, 1e9).map(repr)),
    st.one_of(st.sampled_from(["east", "west", "", "?"]), st.text(st.characters(codec="utf-8"), max_size=8)),
    st.sampled_from(["yes", "no", "", "1", "0"]),
    st.one_of(st.just("NA"), st.dates().map(str)),
)
ROWS = st.lists(ROW, min_size=2, max_size=12)


def encoded(rows, names=NAMES, separator=","):
    text = io.StringIO()
    order = [NAMES.index(name) for name in names]
    writer = csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writerows([names, *([row[place] for place in order] for row in rows)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_bytes(text.getvalue().encode())
        return encode(schema(TABLE), read_frame(path, NAMES))


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_changes_no_row(rows, random):
    whole, order, names = encoded(rows), list(range(len(rows))), list(NAMES)
    random.shuffle(order)
    random.shuffle(names)
    again = encoded([rows[place] for place in order], names, random.choice(",;\t|"))
    assert again.x.tobytes() == whole.x[order].tobytes()
    assert again.y.tobytes() == whole.y[order].tobytes()


MARKED = [("ill", "", "0.", "yes", "NA"), ("ill", "", "east", "yes", "NA")]


@given(ROWS, ROWS)
@example(MARKED, MARKED)
def test_a_row_is_encoded_alike_whatever_else_is_in_the_file_and_its_features_are_bounded(rows, others):
    alone, together = encoded(rows), encoded(others + rows)
    assert together.x[len(others) :].tobytes() == alone.x.tobytes()
    assert np.abs(alone.x).max() <= FARTHEST  # nor is any of them NaN
    assert set(alone.x[:, 2:5].sum(1)) <= {0.0, 1.0}, "wards"


BAD = [(1, "x1"), (1, "1,5"), (1, "1e99"), (3, "perhaps"), (4, "1.1.2026"), (0, "dead")]


@given(ROWS, st.sampled_from(BAD), st.data())
def test_a_bad_value_is_named_with_its_row_and_column(rows, bad, data):
    place, value = bad
    row = data.draw(st.integers(0, len(rows) - 1))
    rows[row] = tuple(value if here == place else cell for here, cell in enumerate(rows[row]))
    assert f"row {row + 1}, column {NAMES[place]!r}: {value!r} is n" in told(encoded, rows)
