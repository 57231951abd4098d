"""One sum over all members' rows: exact totals, and noise anew in every attempt."""

import numpy as np
import pytest

from mechanisms.noise.randomness import SystemWords
from mechanisms.record_sums import FINEST, record_sums
from node.jobs.survey import Survey, totals_in

SUMS = [np.array(values, np.int64) << 20 for values in ((50, -20, 9999), (7, -(2**30), 1), (1, 5, 2**30))]


def totals(members):
    words = [one.contribution(one.initial(), 0).words for one in members]
    assert {len(each) for each in words} == {members[0].words(0)}
    following = members[0].following(members[0].initial(), 0, np.sum(words, axis=0, dtype=np.uint32), ())
    assert len(following) == members[0].length
    return totals_in(following)


def test_without_noise_the_totals_are_exact():
    members = [Survey(sums, FINEST, None, SystemWords()) for sums in SUMS]
    assert totals(members).tolist() == [58, -(2**30) - 15, 2**30 + 10000]
    assert (members[0].cost(0), members[0].is_over(members[0].initial())) == ((), False)


def test_each_attempt_has_noise_of_its_own_and_costs_a_release():
    noise = record_sums(1.0, 1e-6, 1, 1.0)
    members = [Survey(np.zeros(400, np.int64), noise.unit, noise, SystemWords()) for _ in range(3)]
    assert members[0].cost(0) == noise.per_training
    one, other = totals(members), totals(members)
    assert not np.array_equal(one, other)
    assert np.std([one, other]) == pytest.approx(noise.noise_std * 3**0.5, rel=0.2)
