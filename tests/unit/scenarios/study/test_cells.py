"""Outcomes, and the shelf that stores them."""

import json

import pytest

from node.system.errors import UserError
from scenarios.frame.digests import salt_of
from scenarios.study.cells import Outcome, Shelf, cell_name
from tests.own_studies import NOISED, PLAIN

CELL = PLAIN.lasting(2).seeded(3)
OUTCOME = Outcome(
    (0.5, 0.75),
    {"epsilon": None, "stated": 8.0, "unit": "one client"},
    1.5,
    {"loss": (2.0, 1.5)},
    (0.5, 1.25),
)


def test_what_is_put_on_the_shelf_is_there_whole_and_each_cell_has_its_place(tmp_path):
    shelf = Shelf(tmp_path / "cells")
    assert not shelf.holds(CELL)
    shelf.put(CELL, OUTCOME)
    assert shelf.holds(CELL)
    assert shelf.get(CELL) == OUTCOME
    assert OUTCOME.final == 0.75
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["plain-3.json"]
    assert not shelf.holds(CELL.seeded(4))
    assert not shelf.holds(NOISED.seeded(3))
    assert cell_name(CELL) == "plain, seed 3"
    assert salt_of("plain") == salt_of("plain") != salt_of("noised")
    assert 0 <= salt_of("plain") < 2**32


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ('{"figures": [0.5,', "Expecting value"),
        ("[]", "list indices"),
        ('{"figures": [0.5, 0.75], "seconds": 1}', "'facts'"),
        ('{"figures": [0.5, "high"], "facts": {}, "seconds": 1}', "'high'"),
        ('{"figures": [0.5, 0.75], "facts": {}, "seconds": null}', "not 'NoneType'"),
        ('{"figures": 5, "facts": {}, "seconds": 1}', "not iterable"),
        ('{"figures": [0.5, 0.75], "facts": {}, "seconds": 1, "series": {"loss": 2}}', "not iterable"),
        ('{"figures": [0.5, 0.75], "facts": {}, "seconds": 1, "series": []}', "'list'"),
        ('{"figures": [0.5], "facts": {}, "seconds": 1}', "has 1 figures, not 2"),
        ("\udce4", "utf-8"),
    ],
)
def test_a_damaged_file_is_one_line_that_names_it_and_tells_what_to_do(text, said, tmp_path):
    shelf = Shelf(tmp_path)
    shelf.path(CELL).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match="remove it, and the same command runs that cell again") as raised:
        shelf.get(CELL)
    assert str(raised.value).startswith(f"{tmp_path}/plain-3.json ")
    assert said in str(raised.value)
    assert raised.value.status == 1


def test_a_file_is_json_that_others_can_read_and_one_of_an_earlier_version_is_read(tmp_path):
    shelf = Shelf(tmp_path)
    shelf.put(CELL, OUTCOME)
    fields = json.loads(shelf.path(CELL).read_text())
    series = {"loss": [2.0, 1.5]}
    assert fields == {
        "figures": [0.5, 0.75],
        "facts": dict(OUTCOME.facts),
        "seconds": 1.5,
        "series": series,
        "clock": [0.5, 1.25],
    }
    shelf.path(CELL).write_text('{"figures": [0.5, 0.75], "facts": {"epsilon": null}, "seconds": 1.5}')
    assert shelf.get(CELL) == Outcome((0.5, 0.75), {"epsilon": None}, 1.5)
