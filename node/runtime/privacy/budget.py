"""A node's privacy budget: its mechanism, what it can still afford, the charge of an offer, and the words.

The formulas are in `mechanisms`; this module applies them to the node's own ledger, which holds all charges
of the key under the task's name. A mechanism's guarantee counts the charges of its own unit, each at the
terms that it was sized for; charges of other units are shown apart.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import prod
from typing import TYPE_CHECKING

from mechanisms.accounting.ledger import (
    NO_BOUND,
    Event,
    Gaussian,
    Ledger,
    SampledGaussian,
    Spent,
    Terms,
    Unit,
    privacy_spent,
)
from mechanisms.accounting.terms import (
    CELLS,
    at_honest,
    has_no_bound,
    has_unknown,
    ledger_of_unit,
    mechanisms_of,
    units,
    unknown_terms,
    with_terms,
)
from mechanisms.mechanism import CountPlan, Guarantee, Mechanism, Memory, Setting, SharedSetting
from mechanisms.units import noun_of
from node.storage.records import Receipt
from node.system.errors import ConfigError, reason, shown
from node.task.import_path import import_object
from node.task.sections import CELL_SHARE, Task
from protocol.wire.limits import MAX_MEMBERS

if TYPE_CHECKING:  # loads torch, which a tracker does not need
    from mechanisms.noised_counts import CountNoise
    from mechanisms.updates.distributed import DistributedDP

_ROUNDING = 1 + 1e-9
_EMPTY = Ledger()
_DELTA = 1e-5
"""The delta at which epsilon is stated for the charges of other runs, if this run has no guarantee."""
UNBOUND = (
    "NO BOUND: offers without noise were made under this key for this task; from then on nothing is promised "
    "to anybody whose rows were in them, whatever noise comes later"
)
_PARTS = tuple(name for name in dir(Mechanism) if not name.startswith("_"))


def make_mechanism(task: Task, shapes: Sequence[tuple[str, tuple[int, ...]]], rows: int) -> Mechanism:
    """Makes the mechanism that `privacy.mechanism` names, for this node's work: `rows`, or persons.

    An import path `package.module:Class` is called with a `mechanisms.mechanism.Setting`, like the built-in
    mechanisms. Raises ConfigError if the mechanism cannot be made, lacks a part, or does not cover the task.
    """
    from mechanisms.registry import MECHANISMS, maker_of  # noqa: PLC0415 - loads torch, as the next one does
    from node.runtime.privacy.mechanism_checks import check_mechanism  # noqa: PLC0415 - which a tracker does not need

    name = task.privacy.mechanism
    make = MECHANISMS[name] if name in MECHANISMS else maker_of(_imported(name))
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
        rows_per_person=task.rows_per_person,
        cells=CountPlan(CELL_SHARE, task.cell_sums) if task.cell_sums else None,
    )
    try:
        mechanism = make(setting)
        missing = [part for part in _PARTS if not hasattr(mechanism, part)]
    except Exception as error:  # a user's mechanism may raise anything
        raise ConfigError(f"privacy.mechanism = {name!r}: {reason(error)}") from error
    if missing:
        raise ConfigError(f"privacy.mechanism = {name!r} is no mechanism: it has no {', '.join(missing)}")
    check_mechanism(task, mechanism)
    return mechanism


def _imported(path: str) -> Callable[[Setting], Mechanism]:
    """Returns the class or function that `path` names; raises ConfigError."""
    found = import_object(path)
    if not callable(found):
        raise ConfigError(f"{shown(path)} is not a class; allowed: 'package.module:Class'")
    return found


def _shared_setting(task: Task) -> SharedSetting | None:
    """Returns what members with shared noise agree on; None if they share none."""
    plan = task.step_plan
    if plan is None:
        return None
    return SharedSetting(
        honest=plan.honest,
        sampling_probability=plan.sampling_probability,
        expected_batch=plan.expected_batch,
        steps=plan.steps - task.cell_sums,
        members=MAX_MEMBERS,
    )


def _count_plan(task: Task) -> CountPlan | None:
    """Returns how many releases of counts a run has beside its training; None if none.

    In a run of steps a failed sum is repeated with new counts: for that it reserves one in 25 more.
    """
    section, plan = task.aggregation, task.step_plan
    if not task.counts_with_noise:
        return None
    sums, reserve = (task.train.rounds, 0) if plan is None else (plan.steps // plan.report_every, 25)
    planned = sums // section.swarm_metric_every
    if not planned:
        raise ConfigError(
            f"aggregation.swarm_metric_every = {section.swarm_metric_every} is refused with {sums} rounds: "
            f"nothing would ever be counted; allowed: at most {sums}"
        )
    return CountPlan(task.privacy.metric_share, planned + (-(-planned // reserve) if reserve else 0))


def offer_bound(task: Task, mechanism: Mechanism) -> float:
    """Returns the bound on coordinates of all offers: `aggregation.clip`, or more if the noise needs it.

    A calibration computes the noise's bound, and its last digit may differ between machines. All nodes need
    the same bound, so it is rounded up to three digits.
    """
    if mechanism.bound <= task.aggregation.clip:
        return task.aggregation.clip
    unit = 10.0 ** (math.floor(math.log10(mechanism.bound)) - 2)
    return float(f"{math.ceil(mechanism.bound / unit / _ROUNDING) * unit:.6g}")


def terms_of(mechanism: Mechanism) -> Terms:
    """Returns what the mechanism's charges are sized for; without a guarantee they count for any unit."""
    guarantee = mechanism.guarantee
    if guarantee is None:
        return Terms(mechanism.name, None)
    return Terms(mechanism.name, guarantee.unit, guarantee.honest)


def _counting(mechanism: Mechanism, unit: Unit, ledger: Ledger) -> Ledger:
    """Returns the charges that count for a unit; charges without terms count as the mechanism's own."""
    return ledger_of_unit(with_terms(ledger, terms_of(mechanism)), unit)


def _spent(mechanism: Mechanism, guarantee: Guarantee, ledger: Ledger, honest: int) -> Spent:
    """Returns what a ledger costs the guarantee's unit if `honest` other members are honest."""
    return privacy_spent(at_honest(_counting(mechanism, guarantee.unit, ledger), honest), guarantee.delta)


def can_train(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether one more round of training and its offer stay within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_training, *mechanism.per_offer))


def can_offer(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether an offer of the training so far stays within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_offer))


def can_count(mechanism: Mechanism, cost: Sequence[Event], ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether the plan and the budget allow an offer with counts of this `cost`."""
    if not cost:
        return True
    plan = noise_of_counts(mechanism)
    return (
        plan is not None
        and counts_charged(mechanism, ledger) < plan.releases
        and _fits(mechanism, ledger, (*pending, *mechanism.per_offer, *cost))
    )


def noise_of_counts(mechanism: Mechanism) -> CountNoise | None:
    """Returns the noise of counts beside training; None if nothing is counted."""
    from mechanisms.updates.distributed import DistributedDP  # noqa: PLC0415 - loads torch
    from mechanisms.updates.record import RecordDP  # noqa: PLC0415 - loads torch

    return mechanism.counts if isinstance(mechanism, DistributedDP | RecordDP) else None


def _events_of_counts(noise: CountNoise | None, releases: int) -> tuple[Event, ...]:
    return () if noise is None else (noise.event,) * releases


def affordable(mechanism: Mechanism, ledger: Ledger) -> Counter[Event]:
    """Returns how many more charges of each kind of offer the budget allows, all of them together."""
    from mechanisms.updates.distributed import DistributedDP  # noqa: PLC0415 - loads torch

    if not isinstance(mechanism, DistributedDP):
        events = (*mechanism.per_training, *mechanism.per_offer)
        if not events or mechanism.guarantee is None:
            return Counter()
        too_many = (many for many in count(1) if not _fits(mechanism, ledger, events * many))
        return Counter(events * (next(too_many) - 1))
    cells = affordable_cells(mechanism, ledger)
    ledger = ledger.adding(cells)
    counts = affordable_counts(mechanism, ledger)
    (step,) = mechanism.shared.events
    steps = affordable_steps(mechanism, ledger, counts)
    return Counter({step: steps} | dict.fromkeys(_events_of_counts(mechanism.counts, 1), counts)) + Counter(
        cells
    )


def affordable_cells(mechanism: DistributedDP, ledger: Ledger) -> tuple[Event, ...]:
    """Returns how many more histograms before the first step the plan and the budget allow, one by one."""
    planned = mechanism.planned_cells[cells_charged(mechanism, ledger) :]
    return next(
        (planned[:many] for many in range(len(planned), 0, -1) if _fits(mechanism, ledger, planned[:many])),
        (),
    )


def affordable_counts(mechanism: DistributedDP, ledger: Ledger) -> int:
    """Returns how many more offers may have counts: those planned that stay within the budget."""
    noise = mechanism.counts
    planned = 0 if noise is None else max(0, noise.releases - counts_charged(mechanism, ledger))

    def is_beyond(more: int) -> bool:
        return not _fits(mechanism, ledger, _events_of_counts(noise, more))

    return bisect_left(range(1, planned + 1), True, key=is_beyond)


def _fits(mechanism: Mechanism, ledger: Ledger, events: Sequence[Event]) -> bool:
    guarantee, total = mechanism.guarantee, spent_by(mechanism, ledger.adding(events))
    return guarantee is None or total is None or total.epsilon <= guarantee.epsilon * _ROUNDING


def affordable_steps(mechanism: DistributedDP, ledger: Ledger, counts: int) -> int:
    """Returns how many more steps stay within the budget, at most those still planned.

    `counts`: how many more offers with counts the budget has to cover, too.
    """
    (step,) = mechanism.shared.events
    planned = max(0, mechanism.shared.steps - steps_charged(mechanism, ledger))
    reserved = _events_of_counts(mechanism.counts, counts)

    def is_beyond(more: int) -> bool:
        return not _fits(mechanism, ledger, (replace(step, steps=more), *reserved))

    if not planned or not is_beyond(planned):
        return planned
    return bisect_left(range(1, planned), True, key=is_beyond)


def receipt_of(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event], memory: Memory) -> Receipt:
    """Returns the receipt of an offer of `pending` training; `memory` is the mechanism's memory after it.

    The first offer without a guarantee is charged as one without a bound, once: no epsilon holds after it.
    """
    events = (*pending, *mechanism.per_offer)
    if mechanism.guarantee is None and not has_no_bound(ledger):
        events = (*events, NO_BOUND)
    return Receipt(events, memory, spent_by(mechanism, ledger.adding(events)))


def spent_by(mechanism: Mechanism, ledger: Ledger) -> Spent | None:
    """Returns the total cost of a ledger by the mechanism's guarantee; None without one.

    It assumes as many honest other members as the guarantee needs; none if it needs nobody.
    """
    guarantee = mechanism.guarantee
    return None if guarantee is None else _spent(mechanism, guarantee, ledger, guarantee.honest or 0)


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
    return {h: _spent(mechanism, guarantee, ledger, h).epsilon for h in most_shown}


def spent_alone(mechanism: Mechanism, ledger: Ledger) -> float | None:
    """Returns the epsilon of a ledger if all others work together; None without shared noise, or a bound."""
    guarantee = mechanism.guarantee
    if guarantee is None or guarantee.honest is None:
        return None
    return finite(_spent(mechanism, guarantee, ledger, 0).epsilon)


def finite(epsilon: float) -> float | None:
    """Returns an epsilon as files hold it: None if there is no bound."""
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
    counts = _events_of_counts(noise, noise.releases if noise else 0)
    return Ledger.of((steps, *mechanism.planned_cells, *counts))


def trust_text(by_honest: Mapping[int, float], unit: Unit) -> str:
    """Returns in words what an epsilon rests on."""
    honest, epsilon = next(iter(by_honest.items()))
    they = "they add their noise and tell nobody" if honest > 1 else "it adds its noise and tells nobody"
    some = _with_fewer(by_honest)
    return (
        f"each {noun_of(unit)} in your data is protected with epsilon {epsilon:.3g} as long as "
        f"{_whom(honest)} honest: {they}. "
        f"{some[:1].upper() + some[1:] + '. ' if some else ''}If all others work together, only your own "
        f"noise is left: epsilon {by_honest[0]:.2g}. A member that adds no noise counts as dishonest, and "
        "nobody can tell"
    )


def _whom(honest: int) -> str:
    return f"at least {honest} of the other members {'are' if honest > 1 else 'is'}"


def _with_fewer(by_honest: Mapping[int, float]) -> str:
    """Returns the epsilons for fewer honest others than declared, but some; "" if there is no such number."""
    _, *between, _ = by_honest.items()
    return ", ".join(f"with {honest} {_it_is(epsilon)}" for honest, epsilon in between)


def introduction(mechanism: Mechanism, ledger: Ledger = _EMPTY) -> dict[str, str]:
    """Returns the start-up lines: the budget, what and whom it protects, and what it does not cover.

    `ledger`: the key's charges before this start; some may be of other units, or have no bound.
    """
    guarantee, before = mechanism.guarantee, _before_text(mechanism, ledger)
    if guarantee is None:
        return {"privacy": f"{mechanism.name}: {mechanism.protects}", **before}
    budget = f"epsilon {guarantee.stated:g}, delta {guarantee.delta:g} over the run"
    proved = "" if guarantee.epsilon == guarantee.stated else f", proved {guarantee.epsilon:.4g}"
    by_honest = planned_by_honest(mechanism)
    return {
        "privacy": f"{mechanism.name}, {budget}{proved}",
        **({"trust": trust_text(by_honest, guarantee.unit)} if by_honest else {}),
        "protects": mechanism.protects,
        "unit": guarantee.unit.words,
        "not covered": guarantee.outside or "nothing that leaves this node",
        **before,
    }


def _before_text(mechanism: Mechanism, ledger: Ledger) -> dict[str, str]:
    """Returns the start-up lines on charges that this run's guarantee does not count as its own."""
    is_bound, apart = not has_no_bound(ledger), apart_from(mechanism, ledger)
    lines: dict[str, str] = {}
    if mechanism.guarantee is not None and not is_bound:
        lines["no bound"] = f"{UNBOUND}; no budget is left, and this node offers nothing"
    if mechanism.guarantee is None and is_bound and apart:
        lines["no bound"] = "from this run's first offer on, nothing is promised under this key any more"
    if apart:
        lines["apart"] = "; ".join(map(_apart_text, apart))
    if has_unknown(ledger):
        honest = unknown_terms(terms_of(mechanism)).honest
        lines["unknown"] = (
            "charges of an earlier version do not say what they were sized for: they count for any unit, "
            f"with honest = {honest}; if that was more, epsilon is more than this node says"
        )
    return lines


def apart_from(mechanism: Mechanism, ledger: Ledger) -> Sequence[Mapping[str, object]]:
    """Returns what the key has charged for units other than this run's, each by itself, as plain values.

    `epsilon` assumes as many honest others as each charge was sized for, `epsilon_alone` none.
    """
    guarantee = mechanism.guarantee
    own, delta = (None, _DELTA) if guarantee is None else (guarantee.unit, guarantee.delta)
    parts = ((unit, ledger_of_unit(ledger, unit)) for unit in units(ledger) if unit != own)
    return [
        {
            "unit": unit.what,
            "neighbours": str(unit.relation),
            "norm": unit.norm,
            "mechanisms": list(mechanisms_of(part)),
            "epsilon": finite(privacy_spent(part, delta).epsilon),
            "epsilon_alone": finite(privacy_spent(at_honest(part, 0), delta).epsilon),
            "delta": delta,
        }
        for unit, part in parts
    ]


def _apart_text(apart: Mapping[str, object]) -> str:
    """Returns an entry of `apart_from` in words."""
    epsilon, alone = apart["epsilon"], apart["epsilon_alone"]
    colluding = "" if alone == epsilon else f" ({_bound(alone)} if all others work together)"
    return (
        f"{_bound(epsilon)}{colluding} at delta {apart['delta']:g} for {apart['unit']} "
        f"({apart['neighbours']}), which this run's epsilon does not count"
    )


def _bound(epsilon: object) -> str:
    return "no bound" if epsilon is None else f"epsilon {epsilon:.4g}"


def facts(mechanism: Mechanism, ledger: Ledger) -> Mapping[str, object] | None:
    """Returns the ledger for summary.json; None without a privacy guarantee."""
    guarantee, so_far = mechanism.guarantee, spent_by(mechanism, ledger)
    if guarantee is None or so_far is None:
        return None
    apart = apart_from(mechanism, ledger)
    return {
        "mechanism": mechanism.name,
        "epsilon_spent": finite(so_far.epsilon),
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
        **(
            {}
            if noise_of_counts(mechanism) is None
            else {"counts_charged": counts_charged(mechanism, ledger)}
        ),
        **({"cells_charged": found} if (found := cells_charged(mechanism, ledger)) else {}),
        **_honest_facts(mechanism, ledger),
        **({"no_bound": UNBOUND} if has_no_bound(ledger) else {}),
        **({"apart": apart} if apart else {}),
    }


def _honest_facts(mechanism: Mechanism, ledger: Ledger) -> Mapping[str, object]:
    """Returns the part of `facts` on whom the guarantee rests; empty if it rests on nobody."""
    by_honest = epsilon_by_honest(mechanism, ledger)
    if not by_honest:
        return {}
    return {
        "honest": next(iter(by_honest)),
        "epsilon_alone": finite(by_honest[0]),
        "epsilon_by_honest": _by_name(by_honest),
        "budget_by_honest": _by_name(planned_by_honest(mechanism)),
        "steps_charged": steps_charged(mechanism, ledger),
    }


def _by_name(by_honest: Mapping[int, float]) -> Mapping[str, float | None]:
    return {str(honest): finite(epsilon) for honest, epsilon in by_honest.items()}


def steps_charged(mechanism: Mechanism, ledger: Ledger) -> int:
    """Returns how many sampled steps count for the guarantee, those of sums that failed included."""
    events = _events(mechanism, ledger)
    return sum(event.steps * times for event, times in events if isinstance(event, SampledGaussian))


def counts_charged(mechanism: Mechanism, ledger: Ledger) -> int:
    """Returns how many offers with counts count for the guarantee: only their releases are not sampled."""
    return _released(mechanism, ledger) - cells_charged(mechanism, ledger)


def cells_charged(mechanism: Mechanism, ledger: Ledger) -> int:
    """Returns how many offers of histograms before the first step count for the guarantee."""
    return _released(mechanism, ledger, CELLS)


def _released(mechanism: Mechanism, ledger: Ledger, name: str | None = None) -> int:
    """Returns how many releases without samples count for the guarantee; `name`: those booked under it."""
    return sum(
        times
        for event, times in _events(mechanism, ledger)
        if isinstance(event, Gaussian) and (name is None or (event.terms and event.terms.mechanism == name))
    )


def _events(mechanism: Mechanism, ledger: Ledger) -> Sequence[tuple[Event, int]]:
    guarantee = mechanism.guarantee
    return () if guarantee is None else _counting(mechanism, guarantee.unit, ledger).counts


def ledger_text(privacy: Mapping[str, object]) -> str:
    """Returns the ledger, as `facts` gives it, in one line."""
    apart = privacy.get("apart")
    others = "".join(f"; apart: {_apart_text(one)}" for one in apart) if isinstance(apart, list) else ""
    outside = f"; not covered: {privacy['outside']}" if privacy["outside"] else ""
    return f"privacy spent: {_own_text(privacy)}{others}{outside}"


def _own_text(privacy: Mapping[str, object]) -> str:
    """Returns what was spent for the unit of the run, and on whom that rests."""
    unit = f"for {privacy['unit']} ({privacy['neighbours']})"
    if "no_bound" in privacy:
        return f"{privacy['no_bound']}, {unit}"
    so_far = f"{_bound(privacy['epsilon_spent'])} of {privacy['epsilon_budget']:.4g}"
    left = f"{privacy['epsilon_remaining']:.4g} remain"
    return f"{so_far} at delta {privacy['delta']:g} ({left}), {unit}{_trust_so_far(privacy)}"


def _trust_so_far(privacy: Mapping[str, object]) -> str:
    """Returns what the epsilon spent so far rests on; "" if it rests on nobody."""
    found = privacy.get("epsilon_by_honest")
    if not isinstance(found, Mapping):
        return ""
    levels = {int(h): math.inf if epsilon is None else float(epsilon) for h, epsilon in found.items()}
    by_honest = dict(sorted(levels.items(), reverse=True))  # a file may have its keys in another order
    some = _with_fewer(by_honest)
    return (
        f", as long as {_whom(next(iter(by_honest)))} honest; {some + '; ' if some else ''}"
        f"if all others work together {_it_is(by_honest[0])}"
    )


def _it_is(epsilon: float) -> str:
    return f"it is {epsilon:.2g}" if math.isfinite(epsilon) else "there is no bound"
