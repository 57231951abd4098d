"""Tables that every study has of its federated and swarm arms: clients, partition, communication, target.

They come from facts and series with common names. An arm without them, because it has no clients or because
an earlier version stored its cells, is left out of a table; a table without arms is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scenarios.frame.spec import Table
from scenarios.study.charts import amount
from scenarios.study.client_accuracy import SPREAD, TENTH, WORST
from scenarios.study.costs import DOWN, MEASURED, UP, sent_until
from scenarios.study.skew import BY_CHANCE, CLIENTS, DISTANCE, FARTHEST, FEWEST, MOST, SIZE_SPREAD
from scenarios.study.sweep import Sweep
from scenarios.study.tables import ArmTable, Cells, mean, seconds, tabled
from scenarios.study.targets import reached

NOT_REACHED = "not reached"
_UNKNOWN = "not known"
_MEGABYTE = 1e6


def _having(*facts: str) -> Callable[[Sweep, str], bool]:
    """Chooses the arms that have all these facts, as numbers, with every seed."""
    return lambda sweep, arm: all(
        isinstance(outcome.facts.get(fact), int | float) for outcome in sweep.outcomes[arm] for fact in facts
    )


def _kilobytes(fact: str) -> Cells:
    return lambda sweep, arm: f"{sweep.mean(arm, fact) / 1e3:.1f}"


def _sent(sweep: Sweep, arm: str) -> str:
    """What all parties sent in a run, in MB."""
    sent = (sent_until(outcome, len(outcome.figures)) for outcome in sweep.outcomes[arm])
    known = [one for one in sent if one is not None]
    return f"{math.fsum(known) / len(known) / _MEGABYTE:.2f}" if known else _UNKNOWN


def _seconds_a_round(sweep: Sweep, arm: str) -> str:
    outcomes = sweep.outcomes[arm]
    run = math.fsum(outcome.seconds for outcome in outcomes) / len(outcomes)
    return f"{run / len(outcomes[0].figures):.3f}"


CLIENT_TABLE = ArmTable(
    "Clients: accuracy on test rows weighted by a client's labels",
    {
        "clients": mean(CLIENTS, ".0f"),
        "worst client": mean(WORST, ".1%"),
        "10th percentile": mean(TENTH, ".1%"),
        "spread (SD)": mean(SPREAD, ".1%"),
    },
    only=_having(WORST, TENTH, SPREAD),
)
"""How accurate the last common model is for single clients: means over the seeds."""
PARTITION_TABLE = ArmTable(
    "Partition: total variation between a client's labels and all labels",
    {
        "clients": mean(CLIENTS, ".0f"),
        "label distance": mean(DISTANCE),
        "farthest client": mean(FARTHEST),
        "by chance": mean(BY_CHANCE),
        "fewest rows": mean(FEWEST, ".0f"),
        "most rows": mean(MOST, ".0f"),
        "spread of sizes": mean(SIZE_SPREAD, ".2f"),
    },
    only=_having(CLIENTS),
)
"""How unequal the clients' rows are: means over the seeds."""
COST_TABLE = ArmTable(
    "Cost: bytes a client and round, and seconds of computing",
    {
        "kB up": _kilobytes(UP),
        "kB down": _kilobytes(DOWN),
        "MB of all, run": _sent,
        "bytes are": lambda sweep, arm: "measured" if sweep.fact(arm, MEASURED) else "of vectors",
        "s a run": seconds,
        "s a round": _seconds_a_round,
    },
    only=_having(UP, DOWN),
)
"""What a client sends and receives in a round, what all send in a run, and the seconds."""


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
    is_finite = sweep.fact(arm, "epsilon") is not None
    return (
        arm,
        str(found.round),
        _UNKNOWN if found.seconds is None else f"{found.seconds:.1f}",
        _UNKNOWN if found.bytes is None else f"{found.bytes / _MEGABYTE:.2f}",
        _UNKNOWN if found.epsilon is None and is_finite else amount(found.epsilon),
        amount(sweep.fact(arm, "delta")),
    )


common_tables = tabled(CLIENT_TABLE, PARTITION_TABLE, COST_TABLE, target_table)
