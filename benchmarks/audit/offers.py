"""Audits of what a node offers: Gaussian noise, `ldp`, `aldp`, and the replay of a faulty calibration.

Neighbours are any two data sets of one node (replace); the inputs are two updates at opposite ends of the
clipping ball. Outputs are projected on their difference. A claim is epsilon = 4 at delta = 1e-5 unless the
case states another one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.audit.case import DELTA, EPSILON, REPEATS, Case, few
from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Gaussian, Ledger, releases_noise_multiplier, spent
from mechanisms.audits.audit import Array, Pair, Release, each_row
from mechanisms.mechanism import Memory, Setting
from mechanisms.noise.noise import noised
from mechanisms.noise.randomness import Words
from mechanisms.updates.adaptive import Fixed, Quantile
from mechanisms.updates.linear_classic import LinearClassic, linear_classic
from mechanisms.updates.local import LocalDP, aldp, ldp

RADIUS, ROUNDS, TENSORS = 1.0, 5, 4
BEFORE = 0.5
"""The radius of the quantile rule before the offer: below its cap, so that it can grow and shrink."""


def offer_cases() -> list[Case]:
    """Return the cases of all mechanisms, mechanism by mechanism."""
    return [*gaussian_cases(), *local_cases(), *adaptive_cases(), *linear_classic_cases()]


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
    """One release; and five releases, audited together against the epsilon that the ledger gives for them."""
    std = gaussian.noise_std(EPSILON, DELTA, 2 * RADIUS)
    pair = opposite(2)
    sound = Case("gaussian", "", gaussian_rows(std), pair)
    many = replace(
        sound,
        mechanism=f"gaussian, {ROUNDS} rounds",
        pair=Pair(
            x0=pair.x0,
            x1=pair.x1,
            y0=np.tile(pair.y0, ROUNDS),
            y1=np.tile(pair.y1, ROUNDS),
        ),
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
    read = spent(Ledger.of([Gaussian(multiplier)] * counted), DELTA)
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


def copies(mechanism: LocalDP) -> Release:
    """A release that makes many offers as one: n inputs of norm r are one update of norm sqrt(n) r.

    The radius is larger and the noise multiplier smaller by sqrt(n), so each coordinate gets the same noise
    as in a separate offer. This holds only for inputs whose norm is exactly the clipping radius.
    """

    def release(inputs: Array, words: Words) -> Array:
        more = math.sqrt(len(inputs))
        joint = replace(
            mechanism,
            rule=Fixed(mechanism.clipping_radius * more),
            noise_multiplier=mechanism.noise_multiplier / more,
        )
        offered = joint.offer(inputs.astype(np.float32).ravel(), (), words)
        return offered.vector.reshape(inputs.shape).astype(np.float64)

    return release


def local_cases() -> list[Case]:
    """`ldp`, and `aldp` with a window; the attacker knows its radius, which epsilon does not cover."""
    memory: Memory = ((0.5, 0.6, 0.7),)
    fixed, window = ldp(setting((2,))), aldp(setting((2,), "raw"))
    sound = Case("ldp", "", offers(fixed), opposite(2, fixed.rule.radius(())), repeats=1)
    public = aldp(setting((2,)))  # radius 0.6: twice the mean norm of the last aggregates
    aggregate = Case("aldp, aggregate", "", offers(public, ((0.2, 0.3, 0.4),)), opposite(2, 0.6), repeats=1)
    given = Case("aldp, radius given", "", offers(window, memory), opposite(2, 0.6), repeats=1)
    return [
        sound,
        replace(sound, fault="noise 10 % low", release=copies(less_noise(fixed, 0.9)), repeats=REPEATS),
        replace(few(sound), fault="noise halved", release=offers(less_noise(fixed, 0.5))),
        given,
        replace(few(given), fault="noise halved", release=offers(less_noise(window, 0.5), memory)),
        aggregate,
        *radius_cases(),
    ]


LOUDNESS_SIZE = 2048
"""The number of parameters of an update: with so many the noise level is known within 1.6 %."""


def radius_cases() -> list[Case]:
    """Two offers of `aldp` in a row, by two data sets whose updates differ by a tenth in norm.

    The attacker looks at nothing but how loud the second offer is. A radius of raw norms shows the first
    update's norm there; one that follows agreed models shows nothing.
    """
    end = np.zeros(LOUDNESS_SIZE)
    end[0] = RADIUS
    heard = np.array([0.5]), np.array([0.55])
    pair = Pair(heard[0] * end, heard[1] * end, *heard)
    raw, covered = (
        aldp(replace(setting((LOUDNESS_SIZE,), source), rounds=2)) for source in ("raw", "aggregate")
    )
    middle = 2 * float(np.mean(heard)) * raw.noise_multiplier
    case = few(Case("aldp, radius", "", second_offer(covered), pair, score=loudness, threshold=middle))
    silent = replace(case, least_found=0.0)
    return [silent, replace(case, fault="of raw norms, as if they were covered", release=second_offer(raw))]


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


def adaptive_cases() -> list[Case]:
    """`aldp` with a quantile: an update within the radius against an opposite one beyond it, with the bit.

    The next radius shows the clamped bit. The score adds the update and the bit, each weighted by its signal
    over its variance.
    """
    mechanism = aldp(setting((2,), "quantile"))
    end = np.array([BEFORE, 0.0])
    pair = Pair(0.999 * end, -2 * end, np.array([BEFORE, 0.0, 1.0]), np.array([-BEFORE, 0.0, 0.0]))
    noise_std = 2 * BEFORE * mechanism.noise_multiplier
    weights = np.array([1 / noise_std**2, 0.0, 1 / _quantile(mechanism).bit_noise_std ** 2])

    def score(released: Array) -> Array:
        toward = (pair.y1 - pair.y0) * weights
        return np.asarray((released - (pair.y0 + pair.y1) / 2) @ toward)

    sound = Case("aldp, quantile", "", with_bit(mechanism), pair, score=score, threshold=0.0, repeats=1)
    bare = replace(mechanism, rule=replace(_quantile(mechanism), bit_noise_std=1e-3))
    return [
        sound,
        replace(few(sound), fault="noise halved", release=with_bit(less_noise(mechanism, 0.5))),
        replace(
            few(sound),
            fault="the bit without noise",
            release=with_bit(bare),
            score=bit_only,
            threshold=-0.5,
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
    """The replay keeps its true epsilon but not the stated one: each tensor alone costs all of that."""
    mechanism = linear_classic(
        "ldp", 0, replace(setting((1,) * TENSORS, "raw"), calibration="linear-classic")
    )
    end = np.full(TENSORS, RADIUS)
    sound = Case(
        "linear-classic, true",
        "",
        offers(mechanism),
        Pair.of(-end, end),
        claim=mechanism.guarantee.epsilon,
        repeats=1,
    )
    stated = replace(sound, mechanism="linear-classic, stated", claim=mechanism.guarantee.stated)
    return [sound, replace(few(stated), fault="the budget for each tensor")]
