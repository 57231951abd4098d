"""A node whose job makes no model: it makes the job's sums with the others, and keeps the last base."""

from __future__ import annotations

from functools import partial

from mechanisms.mechanism import Mechanism
from node.app.run import About, Prepared
from node.app.start_checks import allowed, nicknames
from node.jobs.cohort import Cohort
from node.jobs.job import Job
from node.jobs.no_model import NoModel
from node.options import NodeOptions
from node.runtime.contributions.jobs import JobSums
from node.runtime.contributions.learning import Learning
from node.runtime.plan import Plan
from node.runtime.record.artifacts import Folder
from node.system.system import SYSTEM, System


def prepare_job(
    options: NodeOptions,
    about: About,
    job: Job,
    mechanism: Mechanism,
    parameters: str,
    name: str,
    sums: int,
    tries: int,
    system: System = SYSTEM,
) -> Prepared:
    """Prepares a node for a job of at most so many `sums`; it gives up after `tries` rounds alone in a row.

    `parameters`: the canonical text of all that members share. `name`: what the key's charges are booked for.
    """
    is_cohort = isinstance(job, Cohort)
    return Prepared(
        options=options,
        about=about,
        folder=partial(Folder, card=None, disk=system.disk),
        plan=Plan(
            task=options.task,
            parameters=parameters,
            accuracy_of="sums",
            rounds=sums,
            sums=sums,
            tries=tries,
            report_every=1 if is_cohort else None,
            cohort=is_cohort,
            waits=options.wait_s > 0,
            nicknames=nicknames(options),
            swarm_folder=options.swarm_folder,
        ),
        learning=Learning(
            trainer=NoModel(job),
            mechanism=mechanism,
            spends_for=name,
            contribution=lambda state: JobSums(state, job, mechanism),
            offered=max(job.words(generation) for generation in range(sums)),
            bound=None,
            job=job,
        ),
        allow=allowed(options),
        system=system,
    )
