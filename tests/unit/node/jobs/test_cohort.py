"""A base that names the members of its first sum, and from which no sum of others follows."""

import numpy as np
import pytest

from node.jobs.cohort import Cohort
from node.jobs.limbs import doubles_of
from node.system.errors import UserError
from tests.jobs import NEEDED, Squares, numbers_of

MEMBERS = (b"a" * 32, b"b" * 32, b"c" * 32)


def following(job, base, generation, members):
    words = [Cohort(Squares(numbers_of(site))).contribution(base, generation).words for site in range(3)]
    return job.following(base, generation, np.sum(words, axis=0, dtype=np.uint32), members)


def test_only_sums_of_the_first_one_s_members_follow_until_it_is_over():
    job = Cohort(Squares(numbers_of(0)))
    base = job.initial()
    assert not job.names(base, MEMBERS)
    for generation in range(NEEDED):
        assert not job.is_over(base)
        base = following(job, base, generation, MEMBERS)
        assert len(base) == job.length
        assert job.names(base, reversed(MEMBERS))
        assert not job.names(base, MEMBERS[:2])
        with pytest.raises(UserError, match="of other members than those of the first one"):
            following(job, base, generation + 1, MEMBERS[:2])
    assert job.is_over(base)
    whole = np.concatenate([numbers_of(site) for site in range(3)])
    count, total, squares = doubles_of(job.of_job(base))[1:]
    assert (count, total / count) == (len(whole), pytest.approx(whole.mean()))
    assert squares / count == pytest.approx(whole.var())
