"""A node's privacy budget: its mechanism, what it can still afford, the charge of an offer, and the words.

The formulas are in `mechanisms`; this module applies them to the node's own ledger.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from mechanisms.accounting.honest import at_honest
from mechanisms.accounting.ledger import Event, Gaussian, Ledger, SampledGaussian, Spent, spent
from mechanisms.mechanism import CountPlan, Mechanism, Memory, Setting, SharedSetting
from node.errors import ConfigError, reason
from node.storage.records import Receipt
from node.task.import_path import import_class
from node.task.sections import StepPlan, Task
from protocol.wire.limits import MAX_MEMBERS

if TYPE_CHECKING:  # loads torch, which a tracker does not need
    from mechanisms.noised_counts import CountNoise
    from mechanisms.updates.distributed import DistributedDP

_ROUNDING = 1 + 1e-9
_PARTS = tuple(name for name in dir(Mechanism) if not name.startswith("_"))


def make_mechanism(task: Task, shapes: Sequence[tuple[str, tuple[int, ...]]], rows: int) -> Mechanism:
    """Makes the mechanism that `privacy.mechanism` names, for this node's work.

    An import path `package.module:Class` is called with a `mechanisms.mechanism.Setting`, like the built-in
    mechanisms. Raises ConfigError if the mechanism cannot be made or lacks a part.
    """
    from mechanisms.registry import MECHANISMS  # noqa: PLC0415 - loads torch, which a tracker does not need

    name = task.privacy.mechanism
    make = MECHANISMS[name] if name in MECHANISMS else import_class(name)
    setting = Setting(
        epsilon=task.privacy.epsilon,
        delta=task.privacy.delta,
        clipping_radius=task.privacy.clipping_radius,
        window=task.privacy.window,
        window_source=task.privacy.radius_follows,
        calibration=task.privacy.calibration,
        rounds=task.train.rounds,
        sizes=tuple(prod(shape) for _, shape in shapes),
        rows=rows,
        batch_size=task.train.batch_size,
        epochs=task.train.epochs if task.train.seconds is None else None,
        shared=_shared_setting(task),
        counts=_count_plan(task),
    )
    try:
        mechanism = make(setting)
        missing = [part for part in _PARTS if not hasattr(mechanism, part)]
    except Exception as error:  # a user's mechanism may raise anything
        raise ConfigError(f"privacy.mechanism = {name!r}: {reason(error)}") from error
    if missing:
        raise ConfigError(f"privacy.mechanism = {name!r} is no mechanism: it has no {', '.join(missing)}")
    return mechanism


def _shared_setting(task: Task) -> SharedSetting | None:
    """Returns what members with shared noise agree on; None if they share none."""
    plan = task.step_plan
    if plan is None:
        return None
    return SharedSetting(
        honest=plan.honest,
        sampling_probability=plan.sampling_probability,
        expected_batch=plan.expected_batch,
        steps=plan.steps,
        members=MAX_MEMBERS,
    )


def _count_plan(task: Task) -> CountPlan | None:
    """Returns how many counts a run has beside its training; None if none.

    Where a sum that fails is taken again, with new counts, one in 25 more are reserved for that.
    """
    section = task.aggregation
    if not task.counts_with_noise:
        return None
    sums, reserve = (task.train.rounds, 0) if task.step_plan is None else (_whole_rounds(task.step_plan), 25)
    planned = sums // section.swarm_metric_every
    if not planned:
        raise ConfigError(
            f"aggregation.swarm_metric_every = {section.swarm_metric_every} is refused with {sums} rounds: "
            f"nothing would ever be counted; allowed: at most {sums}"
        )
    return CountPlan(task.privacy.metric_share, planned + (-(-planned // reserve) if reserve else 0))


def _whole_rounds(plan: StepPlan) -> int:
    return plan.steps // plan.report_every


def offer_bound(task: Task, mechanism: Mechanism) -> float:
    """Returns the bound on coordinates of all offers: `aggregation.clip`, or more if the noise needs it.

    A calibration computes the noise's bound, and its last digit may differ between machines. All nodes need
    the same bound, so it is rounded up to three digits.
    """
    if mechanism.bound <= task.aggregation.clip:
        return task.aggregation.clip
    unit = 10.0 ** (math.floor(math.log10(mechanism.bound)) - 2)
    return float(f"{math.ceil(mechanism.bound / unit / _ROUNDING) * unit:.6g}")


def can_train(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether one more round of training and its offer stay within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_training, *mechanism.per_offer))


def can_offer(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether an offer of the training so far stays within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_offer))


def can_count(mechanism: Mechanism, cost: Sequence[Event], ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether an offer may have counts that cost so much: the plan has them, and the budget."""
    if not cost:
        return True
    plan = noise_of_counts(mechanism)
    return (
        plan is not None
        and counts_charged(ledger) < plan.releases
        and _fits(mechanism, ledger, (*pending, *mechanism.per_offer, *cost))
    )


def noise_of_counts(mechanism: Mechanism) -> CountNoise | None:
    """Returns the noise of counts beside training; None if nothing is counted."""
    from mechanisms.updates.distributed import DistributedDP  # noqa: PLC0415 - loads torch
    from mechanisms.updates.record import RecordDP  # noqa: PLC0415 - loads torch

    return mechanism.counts if isinstance(mechanism, DistributedDP | RecordDP) else None


def _events_of_counts(noise: CountNoise | None, releases: int) -> tuple[Event, ...]:
    return () if noise is None else (noise.event,) * releases


def affordable_counts(mechanism: DistributedDP, ledger: Ledger) -> int:
    """Returns how many more offers may have counts: those planned that stay within the budget."""
    noise = mechanism.counts
    planned = 0 if noise is None else max(0, noise.releases - counts_charged(ledger))

    def is_beyond(more: int) -> bool:
        return not _fits(mechanism, ledger, _events_of_counts(noise, more))

    return bisect_left(range(1, planned + 1), True, key=is_beyond)


def _fits(mechanism: Mechanism, ledger: Ledger, events: Sequence[Event]) -> bool:
    guarantee = mechanism.guarantee
    if guarantee is None:
        return True
    return spent(ledger.adding(events), guarantee.delta).epsilon <= guarantee.epsilon * _ROUNDING


def affordable_steps(mechanism: DistributedDP, ledger: Ledger, counts: int) -> int:
    """Returns how many more steps stay within the budget; those that it was planned for, if they all do.

    `counts`: of so many more offers, which the budget covers besides.
    """
    (step,) = mechanism.shared.events
    planned = max(0, mechanism.shared.steps - steps_charged(ledger))
    reserved = _events_of_counts(mechanism.counts, counts)

    def is_beyond(more: int) -> bool:
        return not _fits(mechanism, ledger, (replace(step, steps=more), *reserved))

    if not planned or not is_beyond(planned):
        return planned
    return bisect_left(range(1, planned), True, key=is_beyond)


def receipt_of(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event], memory: Memory) -> Receipt:
    """Returns the receipt of an offer of `pending` training; `memory` is the mechanism's memory after it."""
    events = (*pending, *mechanism.per_offer)
    return Receipt(events, memory, spent_by(mechanism, ledger.adding(events)))


def spent_by(mechanism: Mechanism, ledger: Ledger) -> Spent | None:
    """Returns the total cost of a ledger; None without a privacy guarantee."""
    return spent(ledger, mechanism.guarantee.delta) if mechanism.guarantee else None


def epsilon_by_honest(mechanism: Mechanism, ledger: Ledger) -> Mapping[int, float]:
    """Returns the epsilon of a ledger by the number of honest other members, from the declared one down to 0.

    Empty for a mechanism without shared noise, whose epsilon does not depend on others.
    """
    guarantee = mechanism.guarantee
    honest = None if guarantee is None else guarantee.honest
    if guarantee is None or honest is None:
        return {}
    levels = sorted({honest, *range(honest, 0, -2 if honest > 2 else -1), 0}, reverse=True)
    most_shown = [*levels[:3], 0] if len(levels) > 4 else levels
    return {h: _with_honest(honest, h, ledger, guarantee.delta) for h in most_shown}


def spent_alone(mechanism: Mechanism, ledger: Ledger) -> float | None:
    """Returns the epsilon of a ledger if all others work together; None without shared noise, or a bound."""
    guarantee = mechanism.guarantee
    if guarantee is None or guarantee.honest is None:
        return None
    return _finite(_with_honest(guarantee.honest, 0, ledger, guarantee.delta))


def _with_honest(declared: int, honest: int, ledger: Ledger, delta: float) -> float:
    """Returns the epsilon of a ledger sized for `declared` honest others if so many are `honest`."""
    return spent(at_honest(ledger, declared, honest), delta).epsilon


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def planned_by_honest(mechanism: Mechanism) -> Mapping[int, float]:
    """Returns what a whole run costs, by the number of honest other members; empty without shared noise."""
    from mechanisms.updates.distributed import DistributedDP  # noqa: PLC0415 - loads torch

    if not isinstance(mechanism, DistributedDP):
        return {}
    return epsilon_by_honest(mechanism, planned_ledger(mechanism))


def planned_ledger(mechanism: DistributedDP) -> Ledger:
    """Returns the ledger of a whole run with shared noise: all steps that are planned for, and all counts."""
    noise = mechanism.counts
    steps = replace(mechanism.shared.events[0], steps=mechanism.shared.steps)
    return Ledger.of((steps, *_events_of_counts(noise, noise.releases if noise else 0)))


def trust_text(by_honest: Mapping[int, float]) -> str:
    """Returns in words what an epsilon rests on."""
    honest, epsilon = next(iter(by_honest.items()))
    they = "they add their noise and tell nobody" if honest > 1 else "it adds its noise and tells nobody"
    some = _with_fewer(by_honest)
    return (
        f"your records are protected with epsilon {epsilon:.3g} as long as {_whom(honest)} honest: {they}. "
        f"{some[:1].upper() + some[1:] + '. ' if some else ''}If all others work together, only your own "
        f"noise is left: epsilon {by_honest[0]:.2g}. A member that adds no noise counts as dishonest, and "
        "nobody can tell"
    )


def _whom(honest: int) -> str:
    return f"at least {honest} of the other members {'are' if honest > 1 else 'is'}"


def _with_fewer(by_honest: Mapping[int, float]) -> str:
    """Returns the epsilons between the declared number of honest others and none; "" if there is none."""
    _, *between, _ = by_honest.items()
    return ", ".join(f"with {honest} it is {epsilon:.2g}" for honest, epsilon in between)


def introduction(mechanism: Mechanism) -> dict[str, str]:
    """Returns the start-up lines: the budget, what and whom it protects, and what it does not cover."""
    guarantee = mechanism.guarantee
    if guarantee is None:
        return {"privacy": f"{mechanism.name}: {mechanism.protects}"}
    budget = f"epsilon {guarantee.stated:g}, delta {guarantee.delta:g} over the run"
    proved = "" if guarantee.epsilon == guarantee.stated else f", proved {guarantee.epsilon:.4g}"
    by_honest = planned_by_honest(mechanism)
    return {
        "privacy": f"{mechanism.name}, {budget}{proved}",
        **({"trust": trust_text(by_honest)} if by_honest else {}),
        "protects": mechanism.protects,
        "unit": guarantee.unit.words,
        "not covered": guarantee.outside or "nothing that leaves this node",
    }


def facts(mechanism: Mechanism, ledger: Ledger) -> Mapping[str, object] | None:
    """Returns the ledger for summary.json; None without a privacy guarantee."""
    guarantee, so_far = mechanism.guarantee, spent_by(mechanism, ledger)
    if guarantee is None or so_far is None:
        return None
    return {
        "mechanism": mechanism.name,
        "epsilon_spent": so_far.epsilon,
        "epsilon_budget": guarantee.epsilon,
        "epsilon_remaining": max(0.0, guarantee.epsilon - so_far.epsilon),
        "epsilon_stated": guarantee.stated,
        "delta": guarantee.delta,
        "accountant": so_far.method,
        "unit": guarantee.unit.what,
        "neighbours": str(guarantee.unit.relation),
        "norm": guarantee.unit.norm,
        "outside": guarantee.outside,
        "protects": mechanism.protects,
        **({} if noise_of_counts(mechanism) is None else {"counts_charged": counts_charged(ledger)}),
        **_honest_facts(mechanism, ledger),
    }


def _honest_facts(mechanism: Mechanism, ledger: Ledger) -> Mapping[str, object]:
    """Returns the part of `facts` on whom the guarantee rests; empty if it rests on nobody."""
    by_honest = epsilon_by_honest(mechanism, ledger)
    if not by_honest:
        return {}
    return {
        "honest": next(iter(by_honest)),
        "epsilon_alone": _finite(by_honest[0]),
        "epsilon_by_honest": _by_name(by_honest),
        "budget_by_honest": _by_name(planned_by_honest(mechanism)),
        "steps_charged": steps_charged(ledger),
    }


def _by_name(by_honest: Mapping[int, float]) -> Mapping[str, float | None]:
    return {str(honest): _finite(epsilon) for honest, epsilon in by_honest.items()}


def steps_charged(ledger: Ledger) -> int:
    """Returns how many sampled steps a ledger has, those of sums that failed included."""
    return sum(event.steps * times for event, times in ledger.counts if isinstance(event, SampledGaussian))


def counts_charged(ledger: Ledger) -> int:
    """Returns how many offers with counts a ledger has; training has no release that is not sampled."""
    return sum(times for event, times in ledger.counts if isinstance(event, Gaussian))


def ledger_text(privacy: Mapping[str, object]) -> str:
    """Returns the ledger, as `facts` gives it, in one line."""
    outside = f"; not covered: {privacy['outside']}" if privacy["outside"] else ""
    return (
        f"privacy spent: epsilon {privacy['epsilon_spent']:.4g} of {privacy['epsilon_budget']:.4g} at delta "
        f"{privacy['delta']:g} ({privacy['epsilon_remaining']:.4g} remain), for {privacy['unit']} "
        f"({privacy['neighbours']}){_trust_so_far(privacy)}{outside}"
    )


def _trust_so_far(privacy: Mapping[str, object]) -> str:
    """Returns what the epsilon spent so far rests on; "" if it rests on nobody."""
    found = privacy.get("epsilon_by_honest")
    if not isinstance(found, Mapping):
        return ""
    by_honest = {int(h): math.inf if epsilon is None else float(epsilon) for h, epsilon in found.items()}
    some = _with_fewer(by_honest)
    return (
        f", as long as {_whom(next(iter(by_honest)))} honest; {some + '; ' if some else ''}"
        f"if all others work together it is {by_honest[0]:.2g}"
    )
