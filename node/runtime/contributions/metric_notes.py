"""The start-up lines about counts of rows beside training: what is counted, who learns it, what it costs."""

from __future__ import annotations

from mechanisms.accounting.ledger import Ledger, privacy_spent
from mechanisms.mechanism import Mechanism
from mechanisms.updates.distributed import DistributedDP
from node.runtime.privacy.budget import noise_of_counts
from node.system.errors import counted
from node.task.sections import Task
from node.task.table_models import is_exact

_COUNTED = {
    "confusion": "counts of your test rows by true and predicted class",
    "scores": "counts of your test rows by class and score",
    "sums": "sums over your test rows, of rows and errors",
    "learner": "what your learner counts on the rows held back",
}


def swarm_metric_words(task: Task, mechanism: Mechanism) -> dict[str, str]:
    """Returns the line; empty if nothing is counted."""
    section = task.aggregation
    if section.swarm_metric == "none":
        return {}
    when, where = f"every {section.swarm_metric_every} rounds", "the sum"
    if is_exact(task):
        when, where = "once the model is final", "one more sum"
    what = _COUNTED["learner" if task.model.learner is not None else section.swarm_metric]
    return {
        "metric of all": f"{when}, {what} go into {where}"
        f"{_ONCE if task.rows_per_person else ''}; {cost_of_counts(mechanism) or _NO_NOISE}"
    }


_ONCE = ", in which each person counts once"
_NO_NOISE = "nobody sees those of one node alone, and no noise covers the total"


def cost_of_counts(mechanism: Mechanism) -> str:
    """Says what counts cost beside training; "" if no noise covers them, or nothing is counted."""
    noise, guarantee = noise_of_counts(mechanism), mechanism.guarantee
    if noise is None or guarantee is None:
        return ""
    alone = privacy_spent(Ledger(((noise.event, noise.releases),)), guarantee.delta).epsilon
    return (
        f"noise covers them ({noise.noise_multiplier:.3g} times what one moves them), within the same "
        f"budget: {counted(noise.releases, 'such offer')} would by themselves cost epsilon {alone:.2g}"
    )


def cell_words(mechanism: DistributedDP) -> dict[str, str]:
    """Returns the line about sums that find cells; empty if there are none."""
    noise, guarantee = mechanism.cells, mechanism.guarantee
    if noise is None:
        return {}
    both, all_planned = (
        privacy_spent(Ledger.of(mechanism.planned_cells[:many]), guarantee.delta).epsilon
        for many in (noise.releases // 2, noise.releases)
    )
    return {
        "cells": f"the first {noise.releases // 2} sums count rows by ranges of each column of numbers, with "
        f"noise, for cells of equal rows; they would by themselves cost epsilon {both:.2g} of "
        f"{guarantee.stated:g} ({all_planned:.2g} with as many in reserve); the steps have the rest"
    }
