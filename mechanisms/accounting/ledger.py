"""Events, the ledger that counts them, and the accountant that computes their total cost.

An event is one use of the data: the parameters that determine its cost, and the `Terms` that it was sized
for. A ledger holds the events of one key; `mechanisms.accounting.terms` selects those that count for one
`Unit` of privacy. `privacy_spent` computes the total cost, whatever the terms:

- only Gaussian events: closed form (Balle & Wang 2018, Theorem 8; Dong, Roth & Su 2022, Corollary 3.3);
- otherwise privacy loss distributions (PLD), rounded up by connecting the dots (Doroshenko et al. 2022);
- Renyi DP (RDP, Mironov 2017) where a PLD would be slow or too fine for doubles: more than `PLD_STEPS`
  steps in all, more than `PLD_KINDS` different events, or a delta below `PLD_DELTA`. Its bound is looser.

Each is an upper bound. A central limit ("GDP") accountant is none: for sampled rows it is below PLD.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from itertools import repeat

from mechanisms.accounting import gaussian, privacy_loss, renyi
from mechanisms.arguments import at_least_zero, count, positive, probability, share

PLD_STEPS = 1_000_000
PLD_KINDS = 16
PLD_DELTA = 1e-11
_TAIL = 1e-4
"""The share of delta that pays for cutting off the tails of a PLD."""
_CLOSE = 1.004
"""The search may return a noise multiplier up to this factor above the least that the accountant allows."""


class Relation(StrEnum):
    """What makes two data sets neighbours."""

    ADD_REMOVE = "add or remove"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Unit:
    """What a guarantee protects: `what` neighbours add, remove or replace, and the sensitivity's norm."""

    what: str
    relation: Relation
    norm: str

    @property
    def words(self) -> str:
        """For display: `one record; neighbours: add or remove one; sensitivity in the L2 norm`."""
        return f"{self.what}; neighbours: {self.relation} one; sensitivity in the {self.norm} norm"


@dataclass(frozen=True, slots=True)
class Terms:
    """What an event was sized for: its `mechanism`, its `unit` of privacy, and who shares its noise.

    `unit`: None if the event counts for every unit. `honest`: how many other members must be honest for the
    noise to have its full size; None: all noise is the owner's own.
    """

    mechanism: str
    unit: Unit | None
    honest: int | None = None


@dataclass(frozen=True, slots=True)
class Gaussian:
    """One Gaussian release: noise std = `noise_multiplier` times its L2 sensitivity; 0 is no noise.

    Its neighbours are those for which the caller computed the sensitivity.
    """

    noise_multiplier: float
    terms: Terms | None = None

    def __post_init__(self) -> None:
        at_least_zero("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """`steps` Gaussian releases of sums over rows; each draws a new Poisson sample of the rows.

    A sample includes every row independently with `sampling_probability`. Relation: add or remove one row;
    the sensitivity is the largest L2 norm of one row's term. Abadi et al. 2016, Algorithm 1.
    """

    noise_multiplier: float
    sampling_probability: float
    steps: int
    terms: Terms | None = None

    def __post_init__(self) -> None:
        at_least_zero("noise_multiplier", self.noise_multiplier)
        share("sampling_probability", self.sampling_probability)
        count("steps", self.steps)


@dataclass(frozen=True, slots=True)
class Pure:
    """One (epsilon, 0)-private release, such as randomised response, for any relation."""

    epsilon: float
    terms: Terms | None = None

    def __post_init__(self) -> None:
        at_least_zero("epsilon", self.epsilon)


Event = Gaussian | SampledGaussian | Pure

NO_BOUND = Gaussian(0.0)
"""A release that nothing bounds: it has no noise, or one unit may change it without limit."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """How often each event took place, in any order.

    It merges sampled events with equal noise, sampling probability and terms into one with all their steps.
    """

    counts: tuple[tuple[Event, int], ...] = ()

    def __post_init__(self) -> None:
        totals: dict[Event, int] = {}
        key: Event
        for event, times in self.counts:
            match event:
                case SampledGaussian(steps=steps):
                    key, more = replace(event, steps=1), steps * count("times", times)
                case Gaussian() | Pure():
                    key, more = event, count("times", times)
                case _:
                    raise TypeError(f"event = {event!r} is not allowed: Gaussian, SampledGaussian or Pure")
            totals[key] = totals.get(key, 0) + more
        merged = tuple(sorted(map(_with_steps, totals.items()), key=repr))
        object.__setattr__(self, "counts", merged)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Ledger:
        """Returns the ledger of these events. Raises TypeError on anything else."""
        return cls(tuple(zip(events, repeat(1), strict=False)))

    def adding(self, events: Iterable[Event]) -> Ledger:
        """Returns the ledger with these events, too."""
        return Ledger(self.counts + Ledger.of(events).counts)

    def __bool__(self) -> bool:
        return bool(self.counts)


def _with_steps(counted: tuple[Event, int]) -> tuple[Event, int]:
    event, times = counted
    if isinstance(event, SampledGaussian):
        return replace(event, steps=times), 1
    return counted


# -- the cost of a ledger ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spent:
    """All events of a ledger together are (epsilon, delta)-private; `method` is how epsilon was computed."""

    epsilon: float
    delta: float
    method: str


@dataclass(frozen=True, slots=True)
class _Parts:
    """A ledger as the accountants take it: plain Gaussians composed into one, of infinite z for none."""

    gaussian_z: float
    sampled: tuple[privacy_loss.Sampled, ...]
    responses: tuple[privacy_loss.Response, ...]

    @property
    def method(self) -> str:
        if not self.sampled and not self.responses:
            return "closed form"
        kinds = len(self.sampled) + len(self.responses)
        steps = sum(one.steps for one in self.sampled) + sum(one.times for one in self.responses)
        return "PLD" if steps <= PLD_STEPS and kinds <= PLD_KINDS else "RDP"

    def loss(self, tail: float) -> privacy_loss.PrivacyLoss:
        plain = (privacy_loss.Sampled(self.gaussian_z, 1.0, 1),) if math.isfinite(self.gaussian_z) else ()
        return privacy_loss.compose((*plain, *self.sampled), self.responses, tail)

    def divergences(self) -> renyi.Array:
        each = [one.steps * renyi.sampled_gaussian(one.z, one.q) for one in self.sampled]
        each += [one.times * renyi.response(one.epsilon) for one in self.responses]
        return sum(each, renyi.gaussian(self.gaussian_z))


_NO_NOISE = 1e-3
"""Below this noise multiplier a sampled release counts as one without noise: its losses are millions."""


def _parts(ledger: Ledger) -> _Parts:
    plain: list[float] = []
    sampled: list[privacy_loss.Sampled] = []
    responses: list[privacy_loss.Response] = []
    for event, times in ledger.counts:
        match event:
            case Gaussian(z):
                plain.append(z / math.sqrt(times))
            case SampledGaussian(z, q, steps) if q == 1 or z < _NO_NOISE:
                plain.append(z / math.sqrt(steps) if q == 1 else 0.0)
            case SampledGaussian(z, q, steps):
                sampled.append(privacy_loss.Sampled(z, q, steps))
            case Pure(epsilon) if epsilon > 0:
                responses.append(privacy_loss.Response(epsilon, times))
    return _Parts(gaussian.compose(plain), tuple(sampled), tuple(responses))


def privacy_spent(ledger: Ledger, delta: float) -> Spent:
    """Returns the least epsilon for `delta` that the accountant proves; infinite without noise.

    Unit, relation and norm are those of the events; sampled events need add or remove, and L2. The method is
    `closed form`, `PLD` or `RDP`, as the module says, or `nothing spent`.
    """
    return _privacy_spent(ledger, probability("delta", delta))


@lru_cache(maxsize=256)
def _privacy_spent(ledger: Ledger, delta: float) -> Spent:
    if not ledger:
        return Spent(0.0, delta, "nothing spent")
    parts = _parts(ledger)
    if parts.gaussian_z == 0:
        return Spent(math.inf, delta, "closed form")
    method = parts.method
    if method == "closed form":
        found = gaussian.epsilon(delta, parts.gaussian_z) if math.isfinite(parts.gaussian_z) else 0.0
    elif method == "PLD" and delta >= PLD_DELTA:
        found = parts.loss(_TAIL * delta).epsilon(delta)
    else:
        found, method = renyi.epsilon(parts.divergences(), delta), "RDP"
    # If all releases are pure, the sum of their epsilons may be less: Dwork & Roth 2014, Corollary 3.15.
    total = math.fsum(one.epsilon * one.times for one in parts.responses)
    if parts.responses and not parts.sampled and math.isinf(parts.gaussian_z) and total <= found:
        return Spent(total, delta, "closed form")
    return Spent(found, delta, method)


def delta_spent(ledger: Ledger, epsilon: float) -> float:
    """Returns the least delta for `epsilon` (>= 0) that the accountant proves; 1 without noise.

    Unit, relation and norm are those of `privacy_spent`. A PLD proves no delta below `PLD_DELTA`: where it
    finds a smaller one, the result is `PLD_DELTA` or what RDP proves, whichever is less.
    """
    epsilon, parts = at_least_zero("epsilon", epsilon), _parts(ledger)
    if parts.gaussian_z == 0:
        return 1.0
    if parts.method == "closed form":
        return gaussian.delta(epsilon, parts.gaussian_z) if math.isfinite(parts.gaussian_z) else 0.0
    if parts.method == "RDP":
        return renyi.delta(parts.divergences(), epsilon)
    found = parts.loss(_TAIL * PLD_DELTA).delta(epsilon)
    return found if found >= PLD_DELTA else min(PLD_DELTA, renyi.delta(parts.divergences(), epsilon))


# -- from a budget to the noise ----------------------------------------------------------------------


def releases_noise_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """Returns z for each of `releases` Gaussian releases that together cost (epsilon, delta), rounded up.

    They cost as much as one release of z / sqrt(releases): Dong, Roth & Su 2022, Corollary 3.3.
    """
    return gaussian.noise_multiplier(epsilon, delta) * math.sqrt(count("releases", releases))


def sampled_noise_multiplier(
    epsilon: float, delta: float, sampling_probability: float, steps: int, beside: float = math.inf
) -> float:
    """Returns z for each of `steps` Poisson-sampled Gaussian releases that together cost (epsilon, delta).

    `beside`: the multiplier of one more release, not sampled, that the same budget pays for; infinite: none.
    The result is never below the least such z, and at most 0.4 % above it. With a sampling probability below
    1 it is at least 0.01, however large the budget. Relation: add or remove one row; norm: L2.
    Raises ValueError if the release beside costs the whole budget, or if the accountant is RDP and no amount
    of noise proves the budget.
    """
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    q, steps = share("sampling_probability", sampling_probability), count("steps", steps)
    left = _multiplier_left(gaussian.noise_multiplier(epsilon, delta), beside)
    if q == 1:
        return left * math.sqrt(steps)
    return _sampled_noise_multiplier(epsilon, delta, q, steps, beside)


def _multiplier_left(whole: float, beside: float) -> float:
    """Returns z of a release that costs, together with one of z = `beside`, as much as one of z = `whole`."""
    if math.isinf(beside):
        return whole
    if not whole < beside:
        raise ValueError(f"beside = {beside:g} is not allowed: above {whole:g}, which is the whole budget")
    return whole / math.sqrt((1 - whole / beside) * (1 + whole / beside)) * (1 + 2.0**-40)


_LEAST_SEARCHED = 0.01
_MARGIN = 1 - 1e-9
"""Leaves room for rounding: an epsilon that is computed from delta later is within the budget, too."""


@lru_cache(maxsize=256)
def _sampled_noise_multiplier(epsilon: float, delta: float, q: float, steps: int, beside: float) -> float:
    def enough(z: float) -> bool:
        parts = _Parts(beside, (privacy_loss.Sampled(z, q, steps),), ())
        if parts.method == "PLD" and delta >= PLD_DELTA:  # the loss of `privacy_spent`, without a search
            return parts.loss(_TAIL * delta).delta(epsilon) <= delta * _MARGIN
        return renyi.epsilon(parts.divergences(), delta) <= epsilon

    # At this z the chi-square divergences of all steps add up to that of one unsampled release. The search
    # starts there; nothing else depends on it.
    one_release = gaussian.noise_multiplier(epsilon, delta)
    guess = max(_LEAST_SEARCHED, 1 / math.sqrt(math.log1p(1 / (q * q * steps * one_release**2))))
    try:
        below, above = _bracket(guess, enough)
    except OverflowError:  # no noise is enough for RDP to prove it
        raise ValueError(
            f"epsilon = {epsilon!r} with delta = {delta!r} is not allowed: too small together, as no amount "
            "of noise proves them for sampled steps; raise one of them"
        ) from None
    while below > 0 and above > _CLOSE * below:
        middle = math.sqrt(below * above)
        below, above = (below, middle) if enough(middle) else (middle, above)
    return above


def _bracket(guess: float, enough: Callable[[float], bool]) -> tuple[float, float]:
    """Returns too little and enough noise, around the guess; (0, the least searched) if that is enough."""
    factor = 1.05
    below = above = guess
    while not enough(above):
        below, above, factor = above, above * factor, factor**2
    while below == above:
        if above <= _LEAST_SEARCHED:
            return 0.0, _LEAST_SEARCHED
        candidate = max(_LEAST_SEARCHED, above / factor)
        below, above, factor = (
            (candidate, candidate, factor**2) if enough(candidate) else (candidate, above, factor)
        )
    return below, above


_DIGITS = 4


def rounded_up(value: float) -> float:
    """`value`, which is above 0, rounded up to four significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    return float(f"{math.ceil(value / unit) * unit:.{_DIGITS}g}")


# -- one line of text for a database -------------------------------------------------------------------

_KINDS: dict[str, type[Event]] = {"gaussian": Gaussian, "sampled gaussian": SampledGaussian, "pure": Pure}


def to_text(event: Event) -> str:
    """Returns the event without its terms as one line of JSON, which `event_from_text` reads."""
    kind = next(name for name, one in _KINDS.items() if isinstance(event, one))
    values = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "terms"}
    return json.dumps({"event": kind, **values})


def event_from_text(text: str) -> Event:
    """Returns the event that `to_text` wrote. Raises ValueError on anything else."""
    try:
        values = json.loads(text)
        if "terms" in values:
            raise ValueError("terms are written by themselves")
        return _KINDS[values.pop("event")](**values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"{text!r:.200} is no event") from None


def terms_to_text(terms: Terms) -> str:
    """Returns terms as one line of JSON, which `terms_from_text` reads."""
    return json.dumps(asdict(terms))


def terms_from_text(text: str) -> Terms:
    """Returns the terms that `terms_to_text` wrote. Raises ValueError on anything else."""
    try:
        values = json.loads(text)
        unit, honest = values["unit"], values["honest"]
        whose = (
            None if unit is None else Unit(str(unit["what"]), Relation(unit["relation"]), str(unit["norm"]))
        )
        return Terms(str(values["mechanism"]), whose, None if honest is None else count("honest", honest))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"{text!r:.200} is no terms") from None
