"""One release of many sums: its split and sensitivity by second computations, and what comes out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from mechanisms.accounting.ledger import Gaussian
from mechanisms.gradients.shared_noise import in_ring
from mechanisms.joint_release import Block, JointNoise, JointRelease, cells, common_sizes, moments, projected
from mechanisms.mechanism import Guarantee
from mechanisms.noised_counts import CountNoise
from mechanisms.units import ONE_RECORD
from tests.unit.mechanisms.settings import refused, words

RNG = np.random.default_rng(11)
BLOCKS = (cells("sex", 3, 1.0), moments("age", 2, 9.0), cells("age", 40, 0.25), Block("wide", 5, 3.0, 5, 2.0))


def release(blocks=BLOCKS, multiplier=4.0, honest=2, records=50_000, members=7) -> JointRelease:
    return JointRelease(blocks, CountNoise(multiplier, 1, honest), records, members)


def named(*blocks: Block) -> tuple[Block, ...]:
    return tuple(replace(block, name=str(place)) for place, block in enumerate(blocks))


def row(blocks):
    """A row as long as each block allows: for each block places (1, m) and values (1, m)."""
    found = {}
    for block in blocks:
        at = RNG.permutation(block.size)[: block.moved]
        direction = np.where(RNG.random(block.moved) < 0.5, 1.0, RNG.normal(size=block.moved))
        found[block.name] = at[None], (direction / np.linalg.norm(direction) * block.norm)[None]
    return found


def test_the_split_has_the_least_variance_of_any_with_this_sensitivity():
    def variance(logarithms):
        squares = np.exp(logarithms)
        squares = squares / sum(x * b.norm**2 for x, b in zip(squares, BLOCKS, strict=True))
        return sum(b.weight / x for x, b in zip(squares, BLOCKS, strict=True))

    ours = np.array(release(named(*BLOCKS)).scales)
    assert sum((c * b.norm) ** 2 for c, b in zip(ours, BLOCKS, strict=True)) == pytest.approx(1)
    best = optimize.minimize(variance, np.zeros(len(BLOCKS)), tol=1e-12).fun
    assert variance(2 * np.log(ours)) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("records", [100, 3_000_000])
def test_a_row_moves_the_sum_by_at_most_the_sensitivity_and_some_by_nearly_it(records):
    one = release(named(*BLOCKS), records=records)
    longest = 0.0
    for _ in range(300):
        rows = [row(one.blocks) for _ in range(3)]
        sums = [one.row_units(joined(rows[:count])) for count in (2, 3)]
        longest = max(longest, float(np.linalg.norm(sums[1] - sums[0])) * one.unit)
    assert longest <= one.sensitivity
    assert longest > 0.99 * one.sensitivity
    assert 1 < one.sensitivity <= 1.01


def joined(rows):
    names = rows[0]
    return {
        name: tuple(np.concatenate([one[name][part] for one in rows]) for part in (0, 1)) for name in names
    }


@pytest.mark.parametrize("honest", [0, 2, 6])
def test_honest_members_add_the_declared_noise_and_the_sum_decodes(honest):
    blocks = named(cells("", 4_000, 1.0), moments("", 2_000, 1.0))
    one = release(blocks, honest=honest)
    at, values = np.zeros((900, 1), np.int64), np.ones((900, 1))
    both = np.tile([0, 1], (900, 1))
    rows = {"0": (at, values), "1": (both, np.tile([0.5, 0.25], (900, 1)))}
    for count in (honest + 1, one.members):
        offers = [in_ring(one.add_noise(one.row_units(rows), words((honest, seed)))) for seed in range(count)]
        found = one.decode(np.add.reduce(offers, dtype=np.uint32))
        for name in ("0", "1"):
            noise = found[name][2:]
            assert noise.std() == pytest.approx(one.sum_std(name, count), rel=6 / math.sqrt(2 * len(noise)))
        assert found["0"][0] == pytest.approx(900 * count, abs=6 * one.sum_std("0", count))
        assert found["1"][0] == pytest.approx(450 * count, abs=6 * one.sum_std("1", count))
    together = one.sum_std("0", honest + 1) * one.scales[0]
    assert together == pytest.approx(4.0 * one.sensitivity)
    assert one.event == Gaussian(4.0)


def test_a_row_too_long_is_shrunk_and_a_place_below_0_is_nowhere():
    one = release((moments("m", 3, 1.0),))
    at = np.array([[0, 1], [-1, -1], [4, 5]])
    found = (
        one.row_units({"m": (at, np.array([[3.0, 4.0], [1.0, 1.0], [0.0, 0.0]]))}) * one.unit / one.scales[0]
    )
    assert found == pytest.approx([0.6 * math.sqrt(2), 0.8 * math.sqrt(2), 0, 0, 0, 0], abs=1e-3)


def test_what_all_rows_add_in_one_place_does_not_wrap_around_with_all_noise():
    one = release((cells("c", 2_000, 1.0),), records=4_000_000)
    largest = np.full(2_000, 1e12)
    total = one.add_noise(largest, words(1)) + sum(
        one.add_noise(np.zeros(2_000), words(s)) for s in range(2, 8)
    )
    assert np.abs(total).max() < 2**31
    assert one.decode(in_ring(total))["c"].mean() == pytest.approx(4_000_000, rel=0.05)


def test_what_does_not_fit_is_refused_in_one_line():
    refused(
        lambda **value: Block(**{"name": "b", "size": 1, "norm": 1.0, "moved": 1, "weight": 1.0, **value}),
        size=0,
        moved=0,
        norm=0.0,
        weight=-1.0,
    )
    refused(release, records=0, members=0)
    for records, multiplier in ((2_000_000_000, 4.0), (20_000_000, 1e-3)):
        with pytest.raises(ValueError, match=f"^records = {records} is not allowed with 4 blocks"):
            release(records=records, multiplier=multiplier)
    with pytest.raises(ValueError, match="values of shape"):
        release((cells("c", 3, 1.0),)).row_units({"c": (np.zeros((1, 2), np.int64), np.ones((1, 2)))})


def test_group_sizes_are_the_least_squares_of_all_tables():
    tables, stds = [RNG.normal(50, 9, size=(2, width)) for width in (3, 8)], [2.0, 5.0]
    sizes, std = common_sizes(tables, stds)
    deviations = np.array([2.0 * math.sqrt(3), 5.0 * math.sqrt(8)])
    for group in (0, 1):
        sums = np.array([table[group].sum() for table in tables])
        fit = np.linalg.lstsq(1 / deviations[:, None], sums / deviations, rcond=None)[0]
        assert sizes[group] == pytest.approx(fit[0])
    assert std == pytest.approx(1 / math.sqrt((1 / deviations**2).sum()))


@pytest.mark.parametrize("total", [0.5, 40.0])
def test_projected_cells_are_the_nearest_that_are_consistent(total):
    values = RNG.normal(2, 5, size=12)
    found = projected(values, total)
    assert found.sum() == pytest.approx(total)
    start = np.full(12, total / 12)
    best = optimize.minimize(
        lambda x: ((x - values) ** 2).sum(),
        start,
        bounds=[(0, None)] * 12,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
        options={"ftol": 1e-12},
    )
    assert found == pytest.approx(best.x, abs=1e-4)
    assert projected(values, -1.0).tolist() == [0.0] * 12


@pytest.mark.parametrize(("honest", "words"), [(0, "one of your rows"), (2, "at least 2 of them are honest")])
def test_a_node_charges_the_release_and_says_who_must_be_honest(honest, words):
    mechanism = JointNoise(CountNoise(4.0, 1, honest), Guarantee(ONE_RECORD, 1.0, 1e-5, 1.0, honest=honest))
    assert mechanism.per_offer == (Gaussian(4.0),)
    assert mechanism.per_training == ()
    assert mechanism.protects.endswith(words)
