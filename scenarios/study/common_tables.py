"""Tables that every study has of its federated and swarm arms: clients, partition, communication, target.

They come from facts and series with common names. An arm without them, because it has no clients or because
an earlier version stored its cells, is left out of a table; a table without arms is left out.
"""

from __future__ import annotations

import math

from scenarios.frame.spec import Table
from scenarios.study.cells import Fact
from scenarios.study.charts import amount
from scenarios.study.client_accuracy import SPREAD, TENTH, WORST
from scenarios.study.costs import DOWN, MEASURED, TRAFFIC, UP, sent_until
from scenarios.study.skew import BY_CHANCE, CLIENTS, DISTANCE, FARTHEST, FEWEST, MOST, SIZE_SPREAD
from scenarios.study.sweep import Sweep
from scenarios.study.targets import reached

NOT_REACHED = "not reached"
_UNKNOWN = "not known"
_MEGABYTE = 1e6


def common_tables(sweep: Sweep) -> tuple[Table, ...]:
    """The tables that have rows."""
    found = (clients_table(sweep), partition_table(sweep), cost_table(sweep), target_table(sweep))
    return tuple(table for table in found if table.rows)


def clients_table(sweep: Sweep) -> Table:
    """How accurate the last common model is for single clients: means over the seeds."""
    headings = ("arm", "clients", "worst client", "10th percentile", "spread (SD)")
    rows = tuple(
        (arm, _number(sweep, arm, CLIENTS), *(f"{sweep.mean(arm, fact):.1%}" for fact in facts))
        for facts in ((WORST, TENTH, SPREAD),)
        for arm in _arms(sweep, *facts)
    )
    return Table("Clients: accuracy on test rows weighted by a client's labels", headings, rows)


def partition_table(sweep: Sweep) -> Table:
    """How unequal the clients' rows are: means over the seeds."""
    headings = (
        "arm",
        "clients",
        "label distance",
        "farthest client",
        "by chance",
        "fewest rows",
        "most rows",
        "spread of sizes",
    )
    rows = tuple(
        (
            arm,
            _number(sweep, arm, CLIENTS),
            *(_decimals(sweep.mean(arm, fact)) for fact in (DISTANCE, FARTHEST, BY_CHANCE)),
            *(_number(sweep, arm, fact) for fact in (FEWEST, MOST)),
            f"{sweep.mean(arm, SIZE_SPREAD):.2f}",
        )
        for arm in _arms(sweep, CLIENTS)
    )
    return Table("Partition: total variation between a client's labels and all labels", headings, rows)


def cost_table(sweep: Sweep) -> Table:
    """What a client sends and receives in a round, what all send in a run, and the seconds."""
    headings = ("arm", "kB up", "kB down", "MB of all, run", "bytes are", "s a run", "s a round")
    rows = tuple(_cost_row(sweep, arm) for arm in _arms(sweep, UP, DOWN))
    return Table("Cost: bytes a client and round, and seconds of computing", headings, rows)


def _cost_row(sweep: Sweep, arm: str) -> tuple[str, ...]:
    outcomes = sweep.outcomes[arm]
    rounds = len(outcomes[0].figures)
    sent = [sent_until(outcome, rounds) for outcome in outcomes if TRAFFIC in outcome.series]
    seconds = math.fsum(outcome.seconds for outcome in outcomes) / len(outcomes)
    known = [one for one in sent if one is not None]
    return (
        arm,
        *(f"{sweep.mean(arm, fact) / 1e3:.1f}" for fact in (UP, DOWN)),
        f"{math.fsum(known) / len(known) / _MEGABYTE:.2f}" if known else _UNKNOWN,
        "measured" if sweep.fact(arm, MEASURED) else "of vectors",
        f"{seconds:.1f}",
        f"{seconds / rounds:.3f}",
    )


def target_table(sweep: Sweep) -> Table:
    """When each arm reaches the target, and what it has used until then; no rows without a target."""
    headings = ("arm", "round", "s", "MB of all", "epsilon", "delta")
    if sweep.target is None:
        return Table("", headings, ())
    rows = tuple(_target_row(sweep, arm, sweep.target) for arm in sweep.outcomes)
    return Table(f"The first round whose mean figure is at least {sweep.target:g}", headings, rows)


def _target_row(sweep: Sweep, arm: str, target: float) -> tuple[str, ...]:
    found = reached(sweep, arm, target)
    if found is None:
        return (arm, NOT_REACHED, "", "", "", "")
    return (
        arm,
        str(found.round),
        _UNKNOWN if found.seconds is None else f"{found.seconds:.1f}",
        _UNKNOWN if found.bytes is None else f"{found.bytes / _MEGABYTE:.2f}",
        _epsilon(found.epsilon, sweep.fact(arm, "epsilon")),
        amount(sweep.fact(arm, "delta")),
    )


def _epsilon(until: float | None, whole: Fact) -> str:
    """The epsilon until a round; `whole`: that of the whole run, None if it is infinite."""
    return _UNKNOWN if until is None and whole is not None else amount(until)


def _arms(sweep: Sweep, *facts: str) -> tuple[str, ...]:
    """The arms that have all these facts, as numbers, with every seed."""
    return tuple(
        arm
        for arm, outcomes in sweep.outcomes.items()
        if all(isinstance(outcome.facts.get(fact), int | float) for outcome in outcomes for fact in facts)
    )


def _number(sweep: Sweep, arm: str, fact: str) -> str:
    return f"{sweep.mean(arm, fact):.0f}"


def _decimals(value: float) -> str:
    """A share with three decimals; "" if there is none, as for numbers in place of labels."""
    return "" if math.isnan(value) else f"{value:.3f}"
