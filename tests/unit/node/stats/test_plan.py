"""What a task asks for that cannot be computed, and rows that cannot take part: one line each."""

import numpy as np
import pytest

from node.jobs.statistics.columns import Category, Number
from node.stats.plan import check_rows, plan
from node.system.errors import ConfigError
from tests.own_data import told
from tests.statistics_rows import COLUMNS, read_statistics, table

WIDE = {**COLUMNS, "event": Number("event", 0.0, 1.0), "debt": Number("debt", -9.0, 9.0)}


def planned(**asked):
    return plan(read_statistics(asked), WIDE)


def model(formula, family="binomial"):
    return {"models": [{"formula": formula, "family": family}]}


def survival(**keys):
    return {"survival": [{"time": "days", "event": "died", "grid": 1, **keys}]}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"group": "sex"}, "'statistics.group' is not a known key"),
        ({"by": "stage"}, "statistics.by = 'stage' is refused; allowed: age, bmi"),
        ({"by": "age"}, "statistics.by = 'age' is refused; allowed: a category: died, sex, arm, smoker"),
        ({"tables": [["sex", "age"]]}, "statistics.tables.0 = 'age' is refused"),
        ({"tables": [["sex"]]}, "statistics.tables = [['sex']] is refused"),
        ({"least_rows": 3}, "statistics.least_rows = 3 is refused; allowed: a whole number from 20"),
        ({"models": [{"formula": "died ~ age"}]}, "statistics.models.0.family is missing"),
        (
            model("died ~ age", "probit"),
            "statistics.models.0.family = 'probit' is refused; allowed: 'binomial'",
        ),
        (model("died ~ weight"), "names 'weight'"),
        (model("arm ~ age"), "statistics.models.0.formula = 'arm' is refused; allowed: yes or no"),
        (model("age ~ sex"), "statistics.models.0.formula = 'age' is refused"),
        (model("sex ~ age", "gaussian"), "'sex' is a category; allowed by family = 'gaussian': a number"),
        (model("debt ~ age", "poisson"), "'debt' has values from -9"),
        (survival(time="arm"), "statistics.survival.0.time = 'arm' is refused"),
        (survival(event="arm"), "statistics.survival.0.event = 'arm' is refused"),
        (survival(by="age"), "statistics.survival.0.by = 'age' is refused"),
        (survival(grid=0), "statistics.survival.0.grid = 0 is refused; allowed: a number above 0"),
        (survival(grid=0.01), "statistics.survival.0.grid = 0.01 is refused: 40001 times up to 400"),
        (survival(cox=["weight"]), "statistics.survival.0.cox = 'weight' is refused"),
        (survival(cox=["days"]), "statistics.survival.0.cox has 'days', which is the time or the event"),
    ],
)
def test_what_cannot_be_computed_is_said_before_it_starts(asked, words):
    assert words in told(lambda: planned(**asked))


def test_columns_of_events_are_responses_of_two_values_and_those_of_survival():
    asked = {**survival(event="smoker"), **model("died ~ age")}
    assert planned(**asked).events == {"died", "smoker"}
    assert planned(**model("age ~ sex", "gaussian")).events == set()


def test_sums_that_are_too_long_are_refused():
    many = {f"n{place}": Number(f"n{place}", 0.0, 1.0) for place in range(200)}
    by = Category("by", tuple(map(str, range(50))))
    with pytest.raises(
        ConfigError, match=r"^statistics asks for sums of \d+ words; allowed: at most 2097152"
    ):
        plan(read_statistics({"by": "by"}), {**many, "by": by})


ASKED = planned(**model("event ~ age"), **survival())
ROWS = {**table(), "event": np.zeros(480), "debt": np.zeros(480)}
COUNTS = planned(**model("visits ~ age", "poisson"))


@pytest.mark.parametrize(
    ("of", "changed", "words"),
    [
        (ASKED, {"age": np.full(480, 300.0)}, "row 1, column 'age': 300 is not allowed: 0 to 120; 480 rows"),
        (
            ASKED,
            {"event": np.r_[np.zeros(9), 0.5, np.zeros(470)]},
            "row 10, column 'event': 0.5 is not allowed: 0 or 1",
        ),
        (
            ASKED,
            {"days": np.r_[np.ones(479), -1.0]},
            "row 480, column 'days': -1 is not allowed: a time from 0",
        ),
        (
            COUNTS,
            {"visits": np.r_[np.ones(479), 1.5]},
            "column 'visits': 1.5 is not allowed: a whole number from 0",
        ),
    ],
)
def test_rows_that_cannot_take_part(of, changed, words):
    rows = {**ROWS, **changed}
    with pytest.raises(ConfigError, match=r"^data 'mine.csv', row ") as caught:
        check_rows(of, rows, "data 'mine.csv'")
    assert words in str(caught.value)


def test_a_few_values_outside_their_range_count_as_its_end():
    check_rows(ASKED, {**ROWS, "bmi": np.r_[np.full(477, 20.0), 99, 99, np.nan]}, "mine")


def test_a_member_with_few_rows_takes_no_part():
    rows = {name: values[:19] for name, values in ROWS.items()}
    with pytest.raises(
        ConfigError, match=r"^mine has 19 rows; allowed by statistics\.least_rows: 20 or more"
    ):
        check_rows(ASKED, rows, "mine")
