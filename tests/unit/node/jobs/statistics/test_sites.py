"""Each member's own figures: shown apart, and hidden where they are of few, at the member itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.jobs.statistics.columns import Category
from node.jobs.statistics.sites import SitesPart, completed
from node.jobs.statistics.together import Statistics
from tests.statistics_rows import COLUMNS, members

KEYS = (b"a" * 32, b"b" * 32, b"c" * 32)
RARE = Category("rare", ("none", "some", "many"))
SHOWN = (COLUMNS["age"], COLUMNS["arm"], RARE)
FEW, LEAST = 5, 20
OF_RARE = [(60, 3), (40, 50), (30, 31)]  # rows with some and with many
LACKING = (2, 0, 0)


@pytest.fixture(scope="module")
def tables():
    found = []
    for table, (some, many), lacking in zip(members(), OF_RARE, LACKING, strict=True):
        rare = np.zeros(len(table["age"]))
        rare[:some], rare[some : some + many] = 1, 2
        rare[len(rare) - lacking :] = np.nan
        found.append({**table, "rare": rare})
    found[1]["age"] = np.where(np.arange(len(found[1]["age"])) < 19, found[1]["age"], np.nan)
    return found


@pytest.fixture(scope="module")
def sums(tables):
    """The job's last base, and the words of each member to each sum."""
    jobs = [
        Statistics((SitesPart(SHOWN, key, FEW, LEAST),), table)
        for key, table in zip(KEYS, tables, strict=True)
    ]
    base, sent = jobs[0].initial(), []
    while not jobs[0].is_over(base):
        sent.append([job.contribution(base, len(sent)).words for job in jobs])
        assert {len(words) for words in sent[-1]} == {jobs[0].words(len(sent) - 1)}
        base = jobs[2].following(base, len(sent) - 1, np.add.reduce(sent[-1], dtype=np.uint32), KEYS)
    assert jobs[0].following(base, len(sent), np.zeros(0, np.uint32), KEYS).tobytes() == base.tobytes()
    return base, sent


def test_each_member_shows_its_own_rows_and_hides_what_is_of_few(sums, tables):
    first, second, third = SitesPart(SHOWN, b"", FEW, LEAST).sites(sums[0])
    assert [site.key for site in (first, second, third)] == [key[:8] for key in KEYS]
    assert [site.rows for site in (first, second, third)] == [len(table["age"]) for table in tables]
    zeros = [int((table["rare"] == 0).sum()) for table in tables]
    assert first.counts["rare"] == (zeros[0], 60, None, None), "3 of many, and 2 that are missing"
    assert second.counts["rare"] == (zeros[1], 40, None, None), "else the totals would tell those"
    assert third.counts["rare"] == (zeros[2], 30, 31, 0)
    assert third.counts["arm"][:3] == tuple(np.bincount(tables[2]["arm"].astype(int)))
    age = tables[2]["age"] / 60 - 1
    assert second.moments["age"] is None, "a mean of 19 rows"
    assert [site.moments["age"] for site in (first, third)].count(None) == 1
    shown = next(site for site in (first, third) if site.moments["age"])
    assert shown is third
    assert shown.moments["age"] == pytest.approx((age.mean(), age.std(ddof=1)), abs=1e-11)


def test_what_is_hidden_never_leaves_its_member(sums):
    _, (_, marks, values) = sums
    assert {*np.unique(np.concatenate(marks))} <= {0, 1}
    slot = values[0].reshape(64, -1)[0]
    assert not np.isin(slot[1:9], (2, 3)).any()
    assert not values[0].reshape(64, -1)[1:].any(), "the others' slots are theirs"
    assert not values[1].reshape(64, -1)[1, 9:].any()


@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=3, max_size=6))
def test_no_line_has_one_that_is_hidden(rows):
    marks = np.array(rows)
    hide = completed(marks, (slice(0, 3), slice(3, 5)))
    assert (hide | ~marks).all()
    assert not any(line.sum() == 1 for line in hide.T)
    assert not any(site[table].sum() == 1 for site in hide for table in (slice(0, 3), slice(3, 5)))


def test_alone_a_member_hides_a_second_beside_its_own_total(tables):
    mine = SitesPart(SHOWN, b"", FEW, LEAST).alone(tables[0])
    assert mine.counts["rare"][2:] == (None, None)
    assert None not in mine.counts["rare"][:2]
    assert mine.moments["age"] is not None
