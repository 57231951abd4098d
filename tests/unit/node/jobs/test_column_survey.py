"""Members learn from sums alone what columns hold: facts as of all rows together, and every word."""

import numpy as np
import pytest

from node.jobs import column_survey
from node.jobs.column_survey import MOST_SUMS, MOST_WORDS, ColumnSurvey, OwnColumn
from node.jobs.job import Contributed
from node.system.errors import UserError

NOTHING = np.empty(0)
ORDER = (b"a" * 32, b"b" * 32, b"c" * 32)


def member(seed: int, words: list[tuple[int, str]]) -> ColumnSurvey:
    numbers = np.random.default_rng(seed).normal(50 * seed, 3.0, 40)
    truths = OwnColumn("boolean" if seed else None, seed == 1, np.array([0.0, 1.0, np.nan]))
    columns = [OwnColumn("number", False, numbers), OwnColumn("text", False, NOTHING), truths]
    return ColumnSurvey(40, columns, words)


def summed(jobs: list[ColumnSurvey]) -> tuple[int, np.ndarray]:
    """Returns how many sums there were, and the last base."""
    base, generation = jobs[0].initial(), 0
    while not jobs[0].is_over(base) and generation < MOST_SUMS:
        words = [job.contribution(base, generation).words for job in jobs]
        assert {len(one) for one in words} == {jobs[0].words(generation)}
        total = np.sum(words, axis=0, dtype=np.uint32)
        bases = {job.following(base, generation, total, ORDER).tobytes() for job in jobs}
        (kept,) = bases
        base, generation = np.frombuffer(kept, np.float32), generation + 1
    return generation, base


@pytest.mark.parametrize(("each", "most"), [(3, 3), (300, 8)], ids=["few", "many"])
def test_all_words_of_all_members_are_found_and_those_of_a_column_are_apart(each, most):
    own = [
        [(1, f"w{number}") for number in range(seed * each // 2, seed * each // 2 + each)]
        for seed in range(3)
    ]
    own[2].append((2, "w0"))
    jobs = [member(seed, words) for seed, words in enumerate(own)]
    sums, base = summed(jobs)
    assert sums <= most
    assert set(jobs[1].all_words(base)) == {word for words in own for word in words}


def test_facts_are_those_of_all_rows_together():
    jobs = [member(seed, [(1, "é " * 20)]) for seed in range(3)]
    _, base = summed(jobs)
    numbers, _, truths = jobs[0].facts(base)
    whole = np.concatenate([np.random.default_rng(seed).normal(50 * seed, 3.0, 40) for seed in range(3)])
    assert jobs[0].all_rows(base) == 120
    assert numbers.scale == pytest.approx((whole.mean(), whole.std()), abs=1e-8)
    assert (numbers.low, numbers.high) == (-8.0, 128.0)
    assert (truths.kinds, truths.gaps, truths.count) == ((0, 2, 0), 1, 6.0)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.75, -3e5, 1e-30, 2.0**93])
def test_an_octave_holds_its_numbers(value):
    low, high = column_survey._edges(column_survey._octave(value))
    assert low <= value <= high


def test_a_constant_has_the_scale_one_and_a_column_without_numbers_too():
    jobs = [
        ColumnSurvey(9, [OwnColumn("number", False, np.full(9, 4.0)), OwnColumn(None, True, NOTHING)], [])
    ] * 3
    _, base = summed(jobs)
    assert [facts.scale for facts in jobs[0].facts(base)] == [(pytest.approx(4.0), 1.0), (0.0, 1.0)]


def test_more_words_than_a_base_holds_are_refused():
    jobs = [member(0, [(1, f"{site}-{number}") for number in range(MOST_WORDS // 2)]) for site in range(3)]
    with pytest.raises(UserError, match="more than 1024 different words"):
        summed(jobs)


def test_what_no_honest_member_adds_is_no_word():
    job = member(0, [(1, "yes")])
    words = job.contribution(job.initial(), 0).words
    entry = bytes([0, 2, 1, 0xFF]).ljust(column_survey._ENTRY, b"\0")  # no UTF-8
    table = words[-64 * column_survey._CELL :].reshape(64, -1)
    empty = np.flatnonzero(table[:, 0] == 0)
    table[empty[0]] = column_survey._checked(entry)
    table[empty[1]] = column_survey._checked(entry) + 1  # of no word at all
    base = job.following(job.initial(), 0, words, ORDER)
    assert job.all_words(base) == ((1, "yes"),)
    assert not job.is_over(base)


def test_numbers_at_random_end_it_without_an_agreement():
    class Lying(ColumnSurvey):
        def contribution(self, base, generation):
            words = np.random.default_rng(generation).integers(0, 1 << 32, self.words(generation))
            return Contributed(words.astype(np.uint32))

    honest = [member(0, [(1, "yes")])] * 2
    sums, base = summed([*honest, Lying(1, [OwnColumn(None, False, NOTHING)] * 3, [])])
    assert sums == MOST_SUMS
    assert not honest[0].is_over(base)
