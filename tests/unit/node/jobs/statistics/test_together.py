"""Statistics of several members: one base at all, whatever the machine, and the same as of pooled rows."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from node.jobs import exact_arithmetic
from node.jobs.statistics import survival
from node.jobs.statistics.counts import SUMS, CountsPart
from node.jobs.statistics.design import design
from node.jobs.statistics.glm import Glm
from node.jobs.statistics.models import ModelPart
from node.jobs.statistics.newton import MOST_SUMS, Status
from node.jobs.statistics.survival import Cox, SurvivalPart, Times
from tests.statistics_rows import COLUMNS, members, run, table

TIMES = Times(COLUMNS["days"], COLUMNS["died"], 1.0)


def terms(*names):
    return design([frozenset(name.split(":")) for name in names], COLUMNS)


def glm(family, response, *names, least_rows=20, columns=COLUMNS):
    return ModelPart(terms(*names), Glm(family, columns[response]), least_rows)


PARTS = (
    CountsPart(tuple(COLUMNS.values())[:5], COLUMNS["arm"]),
    glm("binomial", "died", "age", "sex", "bmi"),
    SurvivalPart(TIMES, COLUMNS["arm"]),
    ModelPart(terms("age", "sex"), Cox(TIMES), 20),
)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_member_computes_the_same_bits_with_any_threads_and_order(threads):
    first, sums = run(PARTS, members())
    with threadpool_limits(threads):
        other, again = run(PARTS, members()[::-1])
    assert (other.tobytes(), again) == (first.tobytes(), sums)
    assert SUMS < sums < 10


def test_a_planted_sum_of_floats_would_make_other_bits(monkeypatch):
    """The test above is sensitive: two orders of adding floats give two bases."""
    found = set()
    for planted in (lambda values: values.sum(axis=0), lambda values: values[::-1].cumsum(axis=0)[-1]):
        monkeypatch.setattr(survival, "total", planted)
        found.add(run(PARTS[3:], members())[0].tobytes())
    assert len(found) == 2
    assert survival.total is not exact_arithmetic.total


def test_members_together_find_what_one_with_all_rows_finds():
    """Up to the rounding of each member's numbers to units."""
    of_members, of_one = (run(PARTS, tables)[0] for tables in (members(), [table()]))
    states = [split_of(base) for base in (of_members, of_one)]
    for part, ours, theirs in zip(PARTS, *states, strict=True):
        if isinstance(part, ModelPart):
            assert part.newton(ours).point == pytest.approx(part.newton(theirs).point, rel=1e-9, abs=1e-11)
        elif isinstance(part, SurvivalPart):
            assert (part.counted(ours) == part.counted(theirs)).all()
        else:
            assert (part.counted(ours).places["bmi"] == part.counted(theirs).places["bmi"]).all()


def split_of(base):
    stops = np.cumsum([part.length for part in PARTS])
    return np.split(base, stops[:-1])


def made(rows=600, **columns):
    rng = np.random.default_rng(3)
    known = {name: np.zeros(rows) for name in COLUMNS}
    return {**known, "site": np.arange(rows) % 3, "age": rng.uniform(20, 90, rows), **columns}


def status(part, tables):
    base, sums = run([part], tables)
    return part.newton(base).status, sums


@pytest.mark.parametrize(
    ("name", "event", "expected"),
    [
        ("a column that is a multiple of another", "bmi", Status.COLLINEAR),
        ("a constant column", "visits", Status.COLLINEAR),
        ("a number that decides the event", "days", Status.SEPARATED),
        ("a level without an event", "smoker", Status.SEPARATED),
    ],
)
def test_models_that_have_no_fit_end_and_say_why(name, event, expected):
    rng = np.random.default_rng(4)
    rows = made(days=rng.uniform(0, 400, 600), smoker=(rng.random(600) < 0.2).astype(float))
    rows["bmi"], rows["visits"] = rows["age"] / 2 + 5, np.full(600, 3.0)
    chance = rng.random(600) < 0.4
    rows["died"] = {
        "days": rows["days"] > 170,
        "smoker": chance & (rows["smoker"] == 0),
    }.get(event, chance).astype(float)
    found, sums = status(glm("binomial", "died", "age", event), members(rows))
    assert found is expected, name
    assert sums <= MOST_SUMS + 1


def test_cox_with_a_column_that_orders_the_events_is_separated():
    rows = made(days=np.arange(600) % 400 + 0.0, died=np.ones(600))
    rows["bmi"] = 10 + 50 * (rows["days"] < 30)
    rows["died"] = (rows["days"] < 30).astype(float)
    assert status(ModelPart(terms("bmi"), Cox(TIMES), 20), members(rows))[0] is Status.SEPARATED


@pytest.mark.parametrize(("least", "missing"), [(20, 593), (300, 0)])
def test_a_member_refuses_a_model_for_which_it_has_too_few_rows(least, missing):
    rows = made(bmi=np.random.default_rng(1).uniform(10, 60, 600))
    rows["bmi"][:missing] = np.nan
    found, sums = status(glm("gaussian", "bmi", "age", least_rows=least), members(rows))
    assert (found, sums) == (Status.REFUSED, 1)


def test_a_member_refuses_more_parameters_than_a_third_of_its_rows():
    rows = {name: values[:120] for name, values in made().items()}
    rows["arm"] = np.arange(120) % 3.0
    many = [f"age:arm:{name}" for name in ("bmi", "visits", "days")]
    part = glm("poisson", "visits", "age", "arm", "sex", "smoker", "died", *many)
    assert part.size > 0.33 * 40
    assert status(part, members(rows))[0] is Status.REFUSED


def test_a_step_too_far_is_halved_until_the_deviance_falls():
    """Two counts far out at a small share of rows: the first step of Poisson's model overshoots."""
    rows = made(bmi=np.where(np.arange(600) % 100 == 0, 60.0, 10.0))
    rows["visits"] = np.where(rows["bmi"] > 50, 40.0, 0.0) + (np.arange(600) % 37 == 0)
    part = glm("poisson", "visits", "bmi")
    base, sums = run([part], members(rows))
    newton = part.newton(base)
    assert newton.status is Status.SETTLED
    groups = [rows["visits"][rows["bmi"] == bmi].mean() for bmi in (10.0, 60.0)]
    slope = newton.point[1] / (newton.scales[1][0] * part.matrix.ranges[1][0])
    assert slope == pytest.approx(np.log(groups[1] / groups[0]) / 50, rel=1e-9)
    assert newton.sums == sums - 1
