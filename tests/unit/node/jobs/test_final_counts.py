"""One sum of counts after a job: its words, and the figure in a base."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from node.jobs.final_counts import FinalCounts
from node.training.figures.tallies import Confusion, Errors, Scores
from tests.jobs import NEEDED, Squares

NAMES = ("no", "yes")


@dataclass(frozen=True)
class Bounded(Squares):
    """Squares, over after a round of three sums."""

    most_sums = round_sums = NEEDED


def member(tally, outputs, targets, numbers):
    found = torch.tensor(outputs), torch.tensor(targets)
    return FinalCounts(Bounded(np.array(numbers)), tally, lambda _: found)


def learn(members):
    """Yields the bases that sums of these members make."""
    first, base = members[0], members[0].initial()
    for generation in range(first.most_sums):
        parts = [each.contribution(base, generation).words for each in members]
        assert {len(part) for part in parts} == {first.words(generation)}
        summed = sum(part.astype(np.uint64) for part in parts).astype(np.uint32)
        base = first.following(base, generation, summed, (b"",) * len(members))
        yield base
        if first.is_over(base):
            return


TALLIES = [
    (Scores(NAMES), [-0.4, 0.3, 0.1], [2.0, -1.0], [0, 1, 0], [1, 1], "accuracy", 3 / 5),
    (Confusion(2, NAMES), [-0.4, 0.3, 0.1], [2.0, -1.0], [0, 1, 0], [1, 1], "accuracy", 3 / 5),
    (Errors(2.0), [5.0, -60.0, 1.0], [0.0, 1.0], [5.0, -60.0, 2.0], [0.0, 1.0], "r2", 1 - 1 / 3089.2),
]


@pytest.mark.parametrize(("tally", "one", "two", "of_one", "of_two", "metric", "value"), TALLIES)
def test_the_last_base_has_the_figure_of_all_rows(tally, one, two, of_one, of_two, metric, value):
    members = [member(tally, one, of_one, [1.0, 2.0]), member(tally, two, of_two, [3.0])]
    *bases, last = learn(members)
    job = members[0].job
    assert len(bases) == NEEDED
    assert members[0].of_job(last).tobytes() == members[0].of_job(bases[-1]).tobytes(), "the job's base stays"
    assert not any(each.figure(base, 1) for each in members for base in bases)
    assert [each.job.is_over(each.of_job(bases[-1])) for each in members] == [True, True]
    for each in members:
        found = each.figure(last, 4)
        assert (found.metric, found.rows, found.peers, found.generation) == (metric, 5, 2, 3)
        assert found.value == pytest.approx(value, abs=1e-6)
        assert found.mine != found.value, "one's own rows say something else"
        assert replace(each, shows_own=False).figure(last, 4).mine is None
    counted = 3 * tally.size
    words = [members[0].words(generation) for generation in range(NEEDED + 1)]
    assert words == [max(job.words(0), counted), job.words(1), job.words(2), counted]


def test_who_counts_less_than_nothing_leaves_no_figure():
    class Liar(Scores):
        def counted(self, outputs, targets):
            return -np.ones(self.size)

    honest, liar = (member(kind(NAMES), [1.0], [1], [1.0]) for kind in (Scores, Liar))
    *_, last = learn([honest, liar])
    assert honest.is_over(last)
    assert honest.figure(last, 4) is None
