"""Statistics on nearly the same rows are noticed, by a file that has none of them."""

import stat

import numpy as np
import pytest

from node.stats.rows_before import BUCKETS, CountedRows
from node.system.errors import ConfigError
from node.system.system import System

FEW = 20
SALTED = System(entropy=bytes)
"""Has one salt in all runs: under one of 35 salts two of six rows share a sum, and are told as five."""
ROWS = {"age": np.random.default_rng(1).normal(50, 9, 5000), "sex": np.tile([0.0, 1.0, np.nan, 1.0], 1250)}


def changed(rows, count):
    """The rows, of which so many have another age."""
    return {**rows, "age": np.r_[rows["age"][:count] + 1, rows["age"][count:]]}


@pytest.fixture
def before(tmp_path):
    found = CountedRows.beside(tmp_path / "node.key", SALTED)
    found.keep(found.sketch(ROWS))
    return CountedRows.beside(tmp_path / "node.key")


def said(before, rows):
    return before.warning(before.sketch(rows), FEW)


def test_a_few_rows_more_or_fewer_or_changed_are_noticed(before):
    assert said(before, ROWS) == ""
    assert "all but about 1 row of these" in said(before, {name: rows[1:] for name, rows in ROWS.items()})
    assert "all but about 1 row of" in said(before, {name: np.r_[rows, 1.0] for name, rows in ROWS.items()})
    assert "about 6 rows of these" in said(before, changed(ROWS, 3)), "three that went, and three that came"
    for many in (30, 5000):
        assert said(before, changed(ROWS, many)) == ""


def test_order_and_the_sign_of_zero_make_no_other_rows(before):
    zeros = {name: np.r_[rows[::-1], 0.0] for name, rows in ROWS.items()}
    before.keep(before.sketch({name: np.r_[-0.0, rows] for name, rows in ROWS.items()}))
    again = CountedRows.beside(before.path.with_suffix(""))
    assert said(again, zeros) != "", "the run before it had a row less"
    assert (again.runs[-1] == again.sketch(zeros)).all()


def test_the_file_is_the_owner_s_and_has_no_row(before):
    assert stat.S_IMODE(before.path.stat().st_mode) == 0o600
    assert before.path.name == "node.key.counted"
    for _ in range(40):
        before.keep(np.random.default_rng().integers(0, 9, BUCKETS).astype(np.uint64))
        before = CountedRows.beside(before.path.with_suffix(""))
    assert len(before.runs) == 16


@pytest.mark.parametrize("content", ["", "[]", '{"salt": "00", "runs": ["00"]}', '{"salt": 1, "runs": []}'])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "node.key.counted").write_text(content)
    with pytest.raises(ConfigError, match="is damaged: put a copy back, or remove it"):
        CountedRows.beside(tmp_path / "node.key")
