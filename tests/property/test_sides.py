"""Which rows are held back, for any table: neither other rows nor their order decide."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.data.files.csv_and_parquet import read_frame
from node.data.sides import RowDraws

CELLS = st.text(st.sampled_from('ab1.,;"\n \u00e9'), max_size=4)
ROWS = st.lists(st.tuples(st.just("x"), CELLS, CELLS), min_size=2, max_size=12)  # no line is blank


@pytest.fixture(scope="module")
def draws_of(tmp_path_factory):
    path: Path = tmp_path_factory.mktemp("sides") / "rows.csv"

    def draw(rows, seed):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("b", "c", "a"), *rows])
        return read_frame(path, ["a"], drawing=RowDraws(seed)).draws.tolist()

    return draw


@settings(max_examples=25)
@given(st.data(), ROWS, ROWS, st.integers(0, 2**32))
def test_a_row_is_where_it_is_whatever_the_others_are(draws_of, data, rows, more, seed):
    before = draws_of(rows, seed)
    assert draws_of([*rows, *more], seed)[: len(rows)] == before
    order = data.draw(st.permutations(range(len(rows))))
    assert draws_of([rows[place] for place in order], seed) == [before[place] for place in order]
    for one, draw in zip(rows, before, strict=True):
        for other, its in zip(rows, before, strict=True):
            assert (one == other) == (draw == its)
