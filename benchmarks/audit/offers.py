"""Audits of what a node offers: Gaussian noise, `ldp`, `aldp`, and the replay of a faulty calibration.

Neighbours are any two data sets of one node (replace). No training is run: the inputs are two updates at
opposite ends of the clipping ball, 2 r apart, which is as far as clipped updates can be. The noise has the
same std in every coordinate and is independent of the update, so the projection on the difference of the
two is a sufficient statistic: other coordinates would tell nothing more, and two are enough.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.audit.case import DELTA, EPSILON, MANY, Case, Claim, Standing, proved, stated
from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Gaussian, Ledger, privacy_spent, releases_noise_multiplier
from mechanisms.audits.audit import Array, Method, Pair, Release, each_row
from mechanisms.mechanism import Memory, Setting
from mechanisms.noise.noise import noised
from mechanisms.noise.randomness import Words
from mechanisms.updates.adaptive import Fixed, Quantile
from mechanisms.updates.linear_classic import LinearClassic, linear_classic
from mechanisms.updates.local import LocalDP, aldp, ldp

RADIUS, ROUNDS, TENSORS = 1.0, 5, 4
BEFORE = 0.5
"""The radius of the quantile rule before the offer: below its cap, so that it can grow and shrink."""
EXACT = "Balle & Wang 2018, Theorem 8"
TOGETHER = f"{EXACT}; Dong, Roth & Su 2022, Corollary 3.3"


def offer_cases() -> list[Case]:
    """Return the cases of all mechanisms, mechanism by mechanism."""
    return [
        *gaussian_cases(),
        *ldp_cases(),
        *aldp_cases(),
        *quantile_cases(),
        *radius_cases(),
        *linear_classic_cases(),
    ]


def opposite(d: int, radius: float = RADIUS) -> Pair:
    """Two updates of norm `radius`, 2 `radius` apart: the worst case of clipped updates (replace)."""
    end = np.full(d, radius / math.sqrt(d))
    return Pair.of(-end, end)


# -- the Gaussian mechanism --------------------------------------------------------------------------


def gaussian_rows(noise_std: float) -> Release:
    """A release that noises all rows as one long vector; each row is one run.

    The noise of each coordinate is independent, so the rows are too. Only the grid is that of a longer
    vector, about 2^-16 of the radius.
    """

    def release(inputs: Array, words: Words) -> Array:
        flat = inputs.astype(np.float32).ravel()
        length = float(np.linalg.norm(flat.astype(np.float64)))
        return noised(flat, noise_std, length * (1 + 1e-6), words).reshape(inputs.shape).astype(np.float64)

    return release


def in_rounds(release: Release, rounds: int) -> Release:
    """A release of the same input in `rounds` rounds; the attacker sees all outputs, side by side."""
    return lambda inputs, words: np.hstack([release(inputs, words) for _ in range(rounds)])


def half_noised(noise_std: float) -> Release:
    """A release with a planted fault: the second half of the coordinates, its own tensor, gets no noise."""
    noisy = gaussian_rows(noise_std)

    def release(inputs: Array, words: Words) -> Array:
        return np.hstack((noisy(inputs, words)[:, : inputs.shape[1] // 2], inputs[:, inputs.shape[1] // 2 :]))

    return release


def gaussian_cases() -> list[Case]:
    """One release; and five releases, audited together against the epsilon that the ledger gives for them.

    Neighbours: two vectors at opposite ends of the ball of RADIUS, in each release the same.
    """
    std = gaussian.noise_std(EPSILON, DELTA, 2 * RADIUS)
    unit = "one vector; neighbours: replace one; sensitivity in the L2 norm"
    pair = opposite(2)
    sound = Case(
        mechanism="gaussian",
        fault="",
        release=gaussian_rows(std),
        pair=pair,
        claim=Claim(EPSILON, DELTA, unit, "a vector, once", EXACT),
        quick_trials=MANY,
    )
    many = replace(
        sound,
        mechanism=f"gaussian, {ROUNDS} rounds",
        pair=Pair(x0=pair.x0, x1=pair.x1, y0=np.tile(pair.y0, ROUNDS), y1=np.tile(pair.y1, ROUNDS)),
        claim=Claim(EPSILON, DELTA, unit, f"a vector, {ROUNDS} times", TOGETHER),
    )
    return [
        sound,
        replace(sound, fault="sensitivity halved", release=gaussian_rows(std / 2)),
        replace(sound, fault="noise 10 % low", release=gaussian_rows(0.9 * std)),
        replace(sound, fault="one tensor without noise", release=half_noised(std)),
        replace(many, release=_rounds(ROUNDS)),
        replace(many, fault="an event not in the ledger", release=_rounds(ROUNDS - 1)),
    ]


def _rounds(counted: int) -> Release:
    """ROUNDS rounds with the noise at which a ledger of `counted` rounds states EPSILON."""
    multiplier = releases_noise_multiplier(EPSILON, DELTA, counted)
    read = privacy_spent(Ledger.of([Gaussian(multiplier)] * counted), DELTA)
    assert math.isclose(read.epsilon, EPSILON, rel_tol=1e-6)
    return in_rounds(gaussian_rows(2 * RADIUS * multiplier), ROUNDS)


# -- offers of a node --------------------------------------------------------------------------------


def setting(sizes: tuple[int, ...], source: str = "aggregate") -> Setting:
    """The setting of a node that makes one offer, of tensors with these sizes, for EPSILON."""
    return Setting(
        epsilon=EPSILON,
        delta=DELTA,
        clipping_radius=RADIUS,
        window=3,
        window_source=source,
        calibration="exact",
        rounds=1,
        sizes=sizes,
        rows=10,
        batch_size=10,
        epochs=1,
    )


def offers(mechanism: LocalDP | LinearClassic, memory: Memory = ()) -> Release:
    """A release that makes one offer for each row, as a node does."""
    return each_row(
        lambda x, words: mechanism.offer(x.astype(np.float32), memory, words).vector.astype(np.float64)
    )


def less_noise(mechanism: LocalDP, share: float) -> LocalDP:
    """`mechanism` with a planted fault: only `share` of its noise."""
    return replace(mechanism, noise_multiplier=share * mechanism.noise_multiplier)


def copies(mechanism: LocalDP, radius: float = RADIUS) -> Release:
    """A release that makes many offers as one: n inputs of norm r are one update of norm sqrt(n) r.

    The radius is larger and the noise multiplier smaller by sqrt(n), so each coordinate gets the same noise
    as in a separate offer. This holds only for inputs whose norm is exactly the clipping radius.
    """

    def release(inputs: Array, words: Words) -> Array:
        more = math.sqrt(len(inputs))
        joint = replace(
            mechanism, rule=Fixed(radius * more), noise_multiplier=mechanism.noise_multiplier / more
        )
        offered = joint.offer(inputs.astype(np.float32).ravel(), (), words)
        return offered.vector.reshape(inputs.shape).astype(np.float64)

    return release


def without_clip(mechanism: LocalDP) -> Release:
    """A release with a planted fault: noise for the clipping radius, but nothing is clipped."""
    return gaussian_rows(2 * mechanism.clipping_radius * mechanism.noise_multiplier)


def beyond(pair: Pair, times: float) -> Pair:
    """The pair with updates `times` as long, which a sound mechanism clips to the same release."""
    return Pair(times * pair.x0, times * pair.x1, pair.y0, pair.y1)


def ldp_cases() -> list[Case]:
    """`ldp`; neighbours: two updates twice as long as the radius, in opposite directions."""
    mechanism = ldp(setting((2,)))
    sound = Case(
        mechanism="ldp",
        fault="",
        release=offers(mechanism),
        pair=beyond(opposite(2), 2.0),
        claim=proved(mechanism.guarantee, "the offer of a run of one round", EXACT),
        subject=mechanism,
        covers=("ldp",),
    )
    faulty = replace(sound, quick_trials=MANY)
    at_radius = replace(faulty, pair=opposite(2))
    return [
        sound,
        replace(at_radius, fault="noise 10 % low", release=copies(less_noise(mechanism, 0.9))),
        replace(at_radius, fault="noise halved", release=copies(less_noise(mechanism, 0.5))),
        replace(faulty, fault="no clip", release=without_clip(mechanism)),
    ]


def aldp_cases() -> list[Case]:
    """`aldp` with a window; neighbours: opposite updates at the radius of the next offer, .6.

    "aggregate" has the radius from aggregates: twice their mean norm. "raw" has it from this node's norms,
    for the owner who declares it public: the guarantee is for the noise given the radius.
    """
    public, raw = aldp(setting((2,))), aldp(setting((2,), "raw"))
    aggregate = Case(
        mechanism="aldp, aggregate",
        fault="",
        release=offers(public, ((0.2, 0.3, 0.4),)),
        pair=opposite(2, 0.6),
        claim=proved(public.guarantee, "the offer of a run of one round", EXACT),
        subject=public,
        covers=("aldp:aggregate",),
    )
    given = replace(
        aggregate,
        mechanism="aldp, raw, radius public",
        release=offers(raw, ((0.5, 0.6, 0.7),)),
        claim=proved(raw.guarantee, "the offer of a run of one round, given the radius", EXACT),
        subject=raw,
        covers=("aldp:raw",),
    )
    faults = [
        replace(
            case,
            fault="noise halved",
            release=copies(less_noise(mechanism, 0.5), 0.6),
            quick_trials=MANY,
        )
        for case, mechanism in ((aggregate, public), (given, raw))
    ]
    return [aggregate, faults[0], given, faults[1]]


LOUDNESS_SIZE = 2048
"""The number of parameters of an update: with so many the noise level is known within 1.6 %."""


def radius_cases() -> list[Case]:
    """The second of two offers of `aldp`; neighbours: two data sets whose updates differ by a tenth in norm.

    The attacker looks at nothing but how loud the second offer is. A radius of raw norms shows the first
    update's norm there; one that follows agreed models shows nothing. Loudness is not Gaussian with a fixed
    std, so the bound is from the ratio of rates.
    """
    end = np.zeros(LOUDNESS_SIZE)
    end[0] = RADIUS
    heard = np.array([0.5]), np.array([0.55])
    pair = Pair(heard[0] * end, heard[1] * end, *heard)
    raw, covered = (
        aldp(replace(setting((LOUDNESS_SIZE,), source), rounds=2)) for source in ("raw", "aggregate")
    )
    silent = Case(
        mechanism="aldp, aggregate, its loudness",
        fault="",
        release=second_offer(covered),
        pair=pair,
        claim=proved(covered.guarantee, "the offers of a run of two rounds", TOGETHER),
        subject=covered,
        method=Method.RATIO,
        score=loudness,
        quick_trials=400,
        least_found=0.0,
    )
    loud = replace(
        silent,
        mechanism="aldp, raw, its loudness",
        release=second_offer(raw),
        claim=stated(raw.guarantee, "the offers of a run of two rounds, whose radius nobody declared public"),
        subject=raw,
        quick_trials=5_000,
        wanted=Standing.REFUTED,
    )
    return [silent, loud]


def second_offer(mechanism: LocalDP) -> Release:
    """A release that offers an update twice, and shows the second offer."""

    def release(x: Array, words: Words) -> Array:
        fresh = x.astype(np.float32)
        memory = mechanism.offer(fresh, (), words).memory
        return mechanism.offer(fresh, memory, words).vector.astype(np.float64)

    return each_row(release)


def loudness(released: Array) -> Array:
    """(n,): the root mean square of each offer's coordinates."""
    return np.asarray(np.sqrt(np.mean(released**2, axis=1)))


def quantile_cases() -> list[Case]:
    """`aldp` with a quantile; neighbours: an update within the radius, an opposite one beyond it.

    The bit of the first is 1, that of the second 0, and the next radius shows the clamped bit. The score
    adds the update and the bit, each weighted by its signal over its variance.
    """
    mechanism = aldp(setting((2,), "quantile"))
    end = np.array([BEFORE, 0.0])
    pair = Pair(0.999 * end, -2 * end, np.array([BEFORE, 0.0, 1.0]), np.array([-BEFORE, 0.0, 0.0]))
    noise_std = 2 * BEFORE * mechanism.noise_multiplier
    weights = np.array([1 / noise_std**2, 0.0, 1 / _quantile(mechanism).bit_noise_std ** 2])

    def score(released: Array) -> Array:
        toward = (pair.y1 - pair.y0) * weights
        return np.asarray((released - (pair.y0 + pair.y1) / 2) @ toward)

    sound = Case(
        mechanism="aldp, quantile",
        fault="",
        release=with_bit(mechanism),
        pair=pair,
        claim=proved(
            mechanism.guarantee,
            "the offer of a run of one round, and the next radius",
            f"{TOGETHER}; Andrew et al. 2021, Theorem 1",
        ),
        subject=mechanism,
        covers=("aldp:quantile",),
        score=score,
    )
    bare = replace(mechanism, rule=replace(_quantile(mechanism), bit_noise_std=1e-3))
    return [
        sound,
        replace(sound, fault="noise halved", release=with_bit(less_noise(mechanism, 0.5))),
        replace(
            sound,
            fault="the bit without noise",
            release=with_bit(bare),
            method=Method.RATIO,
            score=bit_only,
        ),
    ]


def bit_only(released: Array) -> Array:
    """(n,): the bit alone, negated, so that 0 (beyond the radius) points to x1."""
    return -released[:, 2]


def _quantile(mechanism: LocalDP) -> Quantile:
    assert isinstance(mechanism.rule, Quantile)
    return mechanism.rule


def with_bit(mechanism: LocalDP) -> Release:
    """A release of rows (d + 1,): an offer, and the noised bit that anybody can read from the next radius."""
    rule = _quantile(mechanism)

    def release(x: Array, words: Words) -> Array:
        made = mechanism.offer(x.astype(np.float32), ((BEFORE,),), words)
        bit = rule.quantile - math.log(made.memory[0][0] / BEFORE) / rule.rate
        return np.append(made.vector.astype(np.float64), bit)

    return each_row(release)


def linear_classic_cases() -> list[Case]:
    """The replay of a faulty calibration; neighbours: updates opposite in each of TENSORS tensors.

    Its guarantee charges every tensor. The epsilon that it states, all of it for each tensor, is refuted.
    With a window the memory is such that this update makes the radius .6 in both data sets.
    """
    given = replace(setting((1,) * TENSORS, "raw"), calibration="linear-classic")
    fixed, window = linear_classic("ldp", 0, given), linear_classic("aldp", 3, given)
    end = np.full(TENSORS, RADIUS)
    sound = Case(
        mechanism="ldp, linear-classic",
        fault="",
        release=offers(fixed),
        pair=Pair.of(-end, end),
        claim=proved(fixed.guarantee, f"the offer of a run of one round, {TENSORS} tensors", TOGETHER),
        subject=fixed,
        covers=("ldp:linear-classic",),
    )
    adaptive = replace(
        sound,
        mechanism="aldp, linear-classic, radii public",
        release=offers(window, ((0.5, 0.6),) * TENSORS),
        pair=Pair(-0.7 * end, 0.7 * end, -0.6 * end, 0.6 * end),
        claim=proved(
            window.guarantee, f"the offer of a run of one round, {TENSORS} tensors, given the radii", TOGETHER
        ),
        subject=window,
        covers=("aldp:linear-classic",),
    )
    wrong = replace(
        sound,
        mechanism="ldp, linear-classic, as stated",
        claim=stated(fixed.guarantee, f"the offer of a run of one round, {TENSORS} tensors"),
        covers=(),
        wanted=Standing.REFUTED,
    )
    return [sound, adaptive, wrong]
