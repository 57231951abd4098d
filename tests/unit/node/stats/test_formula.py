"""Formulas as R reads them, and the lines for those that are none; the columns of a model that follow."""

import pytest

from node.jobs.statistics.design import design
from node.stats.formula import parse
from node.system.errors import ConfigError
from tests.statistics_rows import COLUMNS

NAMES = {*COLUMNS, "blood pressure"}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("died ~ age", ["age"]),
        ("died~age+sex", ["age", "sex"]),
        ("died ~ age*sex", ["age", "sex", "age sex"]),
        ("died ~ age:sex + sex", ["sex", "age sex"]),
        ("died ~ age * sex * arm", ["age", "sex", "arm", "age sex", "age arm", "sex arm", "age sex arm"]),
        ("died ~ age + age + `blood pressure`", ["age", "blood pressure"]),
        ("died ~ sex*age:arm", ["sex", "age arm", "age arm sex"]),
    ],
)
def test_terms(text, terms):
    found = parse(text, NAMES)
    assert found.response == "died"
    assert [" ".join(sorted(term)) for term in found.terms] == [
        " ".join(sorted(term.split())) if "blood" not in term else term for term in terms
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("died", "has '' after 'died'"),
        ("died ~", "lacks a column at character 7"),
        ("died ~ age +", "lacks a column"),
        ("died + age", "has '+' after 'died'"),
        ("died ~ age ~ sex", "has a second ~"),
        ("died ~ age sex", "lacks a sign before 'sex'"),
        ("died ~ weight", "names 'weight', which is no column of the task"),
        ("weight ~ age", "names 'weight'"),
        ("died ~ age + died", "has its response 'died' on the right"),
        ("died ~ log(age)", "names 'log(age)'"),
        ("", "lacks a column at character 1"),
    ],
)
def test_what_is_no_formula_is_said_in_one_line(text, words):
    with pytest.raises(ConfigError, match="formula") as caught:
        parse(text, NAMES)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("formula", "labels"),
    [
        ("died ~ arm", ["arm: B", "arm: C"]),
        ("died ~ age * sex", ["age", "sex: m", "age x sex: m"]),
        ("died ~ age:sex", ["age x sex: f", "age x sex: m"]),
        (
            "died ~ sex + sex:arm",
            ["sex: m", "sex: f x arm: B", "sex: f x arm: C", "sex: m x arm: B", "sex: m x arm: C"],
        ),
        ("died ~ age:bmi", ["age x bmi"]),
    ],
)
def test_levels_are_coded_as_r_codes_them(formula, labels):
    found = design(parse(formula, COLUMNS).terms, COLUMNS)
    assert [column.label.replace("\N{MULTIPLICATION SIGN}", "x") for column in found] == labels
    assert all(column.extent[0] < column.extent[1] for column in found)
