"""The agreement of members on what the columns of their rows hold, as a node that runs before they learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mechanisms.mechanism import Unprotected
from node.app.jobs import job_parameters, prepare_job
from node.app.run import Prepared
from node.app.start_checks import check_others
from node.app.study import About
from node.estimators.proposal import Wishes
from node.jobs.cohort import Cohort
from node.jobs.column_survey import MOST_SUMS, ColumnSurvey
from node.options import NodeOptions
from node.system.errors import counted
from node.system.system import SYSTEM, System

SECTION = "estimator"
"""What the parameters of an agreement have, and those of a task have not."""
_TRIES = 10
"""How many rounds alone in a row end it."""


def preparing(
    job: ColumnSurvey, rows: int, names: Sequence[str], wishes: Wishes
) -> Callable[[NodeOptions], Prepared]:
    """Returns what prepares the node that agrees on the columns `names`; see `prepare_survey`."""
    return lambda options: prepare_survey(options, job, rows, names, wishes)


def prepare_survey(
    options: NodeOptions,
    job: ColumnSurvey,
    rows: int,
    names: Sequence[str],
    wishes: Wishes,
    system: System = SYSTEM,
) -> Prepared:
    """Prepares a node whose members must have the same columns and wishes. Raises ConfigError."""
    check_others(options)
    aggregation = replace(options.task.aggregation.without_slots, shares="seed", loss_gate=None, dropouts=0)
    options = replace(options, task=replace(options.task, aggregation=aggregation))
    cohort = Cohort(job)
    return prepare_job(
        options,
        About(
            data=counted(rows, "row"),
            what=f"agreement on {counted(len(names), 'column')}",
            notes={"opened": "categories, classes and the octaves of extremes, of all members, not whose"},
        ),
        cohort,
        Unprotected(),
        parameters=job_parameters(
            options, SECTION, ("columns", job.length), {**wishes.shared(), "columns": list(names)}
        ),
        name=f"columns of {options.task.task.name}",
        sums=MOST_SUMS,
        tries=_TRIES,
        system=system,
    )
