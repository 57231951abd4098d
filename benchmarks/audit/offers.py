"""Audits of what a node offers: Gaussian noise, `ldp`, `aldp`, and the replay of a faulty calibration.

Neighbours are any two data sets of one node (replace). Nobody trains: the inputs are two updates at opposite
ends of the clipping ball, 2 r apart; no clipped updates are farther apart. The noise has the same std in
every coordinate and does not depend on the update. So the projection on the difference of the two is a
sufficient statistic, and more than two coordinates would tell nothing more.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.audit.case import DELTA, EPSILON, MANY, Case, Claim, Standing, proved_claim, stated_claim
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
"""The radius of the quantile rule before the offer. It is below the cap, so it can grow and shrink."""
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


def opposite_pair(d: int, radius: float = RADIUS) -> Pair:
    """Return two opposite updates (d,) of norm `radius`: the worst clipped updates (replace)."""
    end = np.full(d, radius / math.sqrt(d))
    return Pair.of(-end, end)


# -- the Gaussian mechanism --------------------------------------------------------------------------


def gaussian_rows(noise_std: float) -> Release:
    """Return a release that noises all rows as one long vector; each row is one run.

    The noise of each coordinate is independent, so the runs are. Only the grid is a longer vector's, about
    2^-16 of the radius.
    """

    def release(inputs: Array, words: Words) -> Array:
        flat = inputs.astype(np.float32).ravel()
        length = float(np.linalg.norm(flat.astype(np.float64)))
        return noised(flat, noise_std, length * (1 + 1e-6), words).reshape(inputs.shape).astype(np.float64)

    return release


def half_noised_rows(noise_std: float) -> Release:
    """Return a faulty release: the second half of the coordinates, a tensor of its own, gets no noise."""
    noisy = gaussian_rows(noise_std)

    def release(inputs: Array, words: Words) -> Array:
        return np.hstack((noisy(inputs, words)[:, : inputs.shape[1] // 2], inputs[:, inputs.shape[1] // 2 :]))

    return release


def gaussian_cases() -> list[Case]:
    """One release; and five together, against the epsilon that the ledger gives for all five.

    Neighbours: two vectors at opposite ends of the ball of RADIUS, the same in each release.
    """
    std = gaussian.noise_std(EPSILON, DELTA, 2 * RADIUS)
    unit = "one vector; neighbours: replace one; sensitivity in the L2 norm"
    pair = opposite_pair(2)
    sound = Case(
        mechanism="gaussian",
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
        replace(sound, fault="one tensor without noise", release=half_noised_rows(std)),
        replace(many, release=_rounds(ROUNDS)),
        replace(many, fault="an event not in the ledger", release=_rounds(ROUNDS - 1)),
    ]


def _rounds(counted: int) -> Release:
    """Return a release of ROUNDS outputs, side by side. A ledger of `counted` such outputs states EPSILON."""
    multiplier = releases_noise_multiplier(EPSILON, DELTA, counted)
    read = privacy_spent(Ledger.of([Gaussian(multiplier)] * counted), DELTA)
    assert math.isclose(read.epsilon, EPSILON, rel_tol=1e-6)
    noisy = gaussian_rows(2 * RADIUS * multiplier)
    return lambda inputs, words: np.hstack([noisy(inputs, words) for _ in range(ROUNDS)])


# -- offers of a node --------------------------------------------------------------------------------


def setting(sizes: tuple[int, ...], source: str = "aggregate") -> Setting:
    """Return the setting of a node that makes one offer for EPSILON, of tensors with these sizes."""
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
    """Return a release that makes an offer of each row, as a node does."""
    return each_row(
        lambda x, words: mechanism.offer(x.astype(np.float32), memory, words).vector.astype(np.float64)
    )


def less_noise(mechanism: LocalDP, share: float) -> LocalDP:
    """Return a faulty mechanism, with only `share` of its noise."""
    return replace(mechanism, noise_multiplier=share * mechanism.noise_multiplier)


def copies(mechanism: LocalDP, radius: float = RADIUS) -> Release:
    """Return a release that makes n offers as one: n inputs of norm r are an update of norm sqrt(n) r.

    The radius is larger by sqrt(n), the noise multiplier smaller. So each coordinate gets the noise of a
    separate offer, if the norm of each input is exactly `radius`.
    """

    def release(inputs: Array, words: Words) -> Array:
        more = math.sqrt(len(inputs))
        joint = replace(
            mechanism, rule=Fixed(radius * more), noise_multiplier=mechanism.noise_multiplier / more
        )
        offered = joint.offer(inputs.astype(np.float32).ravel(), (), words)
        return offered.vector.reshape(inputs.shape).astype(np.float64)

    return release


def unclipped_offers(mechanism: LocalDP) -> Release:
    """Return a faulty release: its noise is for the clipping radius, but it clips nothing."""
    return gaussian_rows(2 * mechanism.clipping_radius * mechanism.noise_multiplier)


def lengthen(pair: Pair, times: float) -> Pair:
    """Return the pair with inputs `times` as long, which a sound mechanism clips to the same release."""
    return Pair(times * pair.x0, times * pair.x1, pair.y0, pair.y1)


def ldp_cases() -> list[Case]:
    """`ldp`; neighbours: two updates twice as long as the radius, in opposite directions."""
    mechanism = ldp(setting((2,)))
    sound = Case(
        mechanism="ldp",
        release=offers(mechanism),
        pair=lengthen(opposite_pair(2), 2.0),
        claim=proved_claim(mechanism.guarantee, "the offer of a run of one round", EXACT),
        subject=mechanism,
        covers=("ldp",),
    )
    faulty = replace(sound, quick_trials=MANY)
    at_radius = replace(faulty, pair=opposite_pair(2))
    return [
        sound,
        replace(at_radius, fault="noise 10 % low", release=copies(less_noise(mechanism, 0.9))),
        replace(at_radius, fault="noise halved", release=copies(less_noise(mechanism, 0.5))),
        replace(faulty, fault="no clip", release=unclipped_offers(mechanism)),
    ]


def aldp_cases() -> list[Case]:
    """`aldp` with a window; neighbours: opposite updates at the radius of the next offer, .6.

    With "aggregate" the radius is twice the mean norm of aggregates. With "raw" it follows from the node's
    own norms, and the owner declares it public: the guarantee is for the noise, given the radius.
    """
    public, raw = aldp(setting((2,))), aldp(setting((2,), "raw"))
    aggregate = Case(
        mechanism="aldp, aggregate",
        release=offers(public, ((0.2, 0.3, 0.4),)),
        pair=opposite_pair(2, 0.6),
        claim=proved_claim(public.guarantee, "the offer of a run of one round", EXACT),
        subject=public,
        covers=("aldp:aggregate",),
    )
    given = replace(
        aggregate,
        mechanism="aldp, raw, radius public",
        release=offers(raw, ((0.5, 0.6, 0.7),)),
        claim=proved_claim(raw.guarantee, "the offer of a run of one round, given the radius", EXACT),
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
"""The parameters of an update. With so many an attacker knows the std of its noise within 1.6 %."""


def radius_cases() -> list[Case]:
    """The second of two offers of `aldp`; neighbours: two data sets whose updates differ by a tenth in norm.

    The attacker looks only at how loud the second offer is. A radius from raw norms shows the norm of the
    first update there; a radius from agreed models shows nothing. Loudness is no Gaussian of a fixed std, so
    the bound is from the ratio of rates.
    """
    end = np.zeros(LOUDNESS_SIZE)
    end[0] = RADIUS
    norms = np.array([0.5]), np.array([0.55])
    pair = Pair(norms[0] * end, norms[1] * end, *norms)
    raw, covered = (
        aldp(replace(setting((LOUDNESS_SIZE,), source), rounds=2)) for source in ("raw", "aggregate")
    )
    silent = Case(
        mechanism="aldp, aggregate, its loudness",
        release=second_offer(covered),
        pair=pair,
        claim=proved_claim(covered.guarantee, "the offers of a run of two rounds", TOGETHER),
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
        claim=stated_claim(
            raw.guarantee, "the offers of a run of two rounds, whose radius nobody declared public"
        ),
        subject=raw,
        quick_trials=5_000,
        wanted=Standing.REFUTED,
    )
    return [silent, loud]


def second_offer(mechanism: LocalDP) -> Release:
    """Return a release that offers an update twice, and shows the second offer."""

    def release(x: Array, words: Words) -> Array:
        fresh = x.astype(np.float32)
        memory = mechanism.offer(fresh, (), words).memory
        return mechanism.offer(fresh, memory, words).vector.astype(np.float64)

    return each_row(release)


def loudness(released: Array) -> Array:
    """Return the root mean square (n,) of each offer's coordinates."""
    return np.asarray(np.sqrt(np.mean(released**2, axis=1)))


def quantile_cases() -> list[Case]:
    """`aldp` with a quantile; neighbours: an update within the radius, an opposite one beyond it.

    The bit of the first is 1, that of the second 0. The next radius shows the bit, noised and clipped to [0,
    1]. The score adds the update and the bit, each weighted by its signal over its variance.
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
        release=offers_with_bits(mechanism),
        pair=pair,
        claim=proved_claim(
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
        replace(sound, fault="noise halved", release=offers_with_bits(less_noise(mechanism, 0.5))),
        replace(
            sound,
            fault="the bit without noise",
            release=offers_with_bits(bare),
            method=Method.RATIO,
            score=bit_score,
        ),
    ]


def bit_score(released: Array) -> Array:
    """Return minus the bit (n,): the bit of x1, which is beyond the radius, is 0."""
    return -released[:, 2]


def _quantile(mechanism: LocalDP) -> Quantile:
    assert isinstance(mechanism.rule, Quantile)
    return mechanism.rule


def offers_with_bits(mechanism: LocalDP) -> Release:
    """Return a release of rows (d + 1,): an offer, and the noised bit that the next radius shows."""
    rule = _quantile(mechanism)

    def release(x: Array, words: Words) -> Array:
        made = mechanism.offer(x.astype(np.float32), ((BEFORE,),), words)
        bit = rule.quantile - math.log(made.memory[0][0] / BEFORE) / rule.rate
        return np.append(made.vector.astype(np.float64), bit)

    return each_row(release)


def linear_classic_cases() -> list[Case]:
    """The replay of a faulty calibration; neighbours: updates opposite in each of TENSORS tensors.

    Its guarantee charges every tensor. The epsilon that it states is spent on each tensor anew, and is
    refuted. With a window, the memory is such that this update makes the radius .6 in both data sets.
    """
    given = replace(setting((1,) * TENSORS, "raw"), calibration="linear-classic")
    fixed, window = linear_classic("ldp", 0, given), linear_classic("aldp", 3, given)
    end = np.full(TENSORS, RADIUS)
    sound = Case(
        mechanism="ldp, linear-classic",
        release=offers(fixed),
        pair=Pair.of(-end, end),
        claim=proved_claim(fixed.guarantee, f"the offer of a run of one round, {TENSORS} tensors", TOGETHER),
        subject=fixed,
        covers=("ldp:linear-classic",),
    )
    adaptive = replace(
        sound,
        mechanism="aldp, linear-classic, radii public",
        release=offers(window, ((0.5, 0.6),) * TENSORS),
        pair=Pair(-0.7 * end, 0.7 * end, -0.6 * end, 0.6 * end),
        claim=proved_claim(
            window.guarantee, f"the offer of a run of one round, {TENSORS} tensors, given the radii", TOGETHER
        ),
        subject=window,
        covers=("aldp:linear-classic",),
    )
    wrong = replace(
        sound,
        mechanism="ldp, linear-classic, as stated",
        claim=stated_claim(fixed.guarantee, f"the offer of a run of one round, {TENSORS} tensors"),
        covers=(),
        wanted=Standing.REFUTED,
    )
    return [sound, adaptive, wrong]
