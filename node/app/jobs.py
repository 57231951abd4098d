"""A node whose job makes no model: it makes the job's sums with the others, and keeps the last base.

Commands of such jobs (node.agree, node.stats) share what is here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mechanisms.mechanism import Mechanism
from node.app.again import begun_again
from node.app.run import Prepared, run_as
from node.app.signals import until_done_or_told
from node.app.start_checks import allowed, nicknames
from node.app.study import About
from node.jobs.cohort import Cohort
from node.jobs.job import Job
from node.jobs.no_model import NoModel
from node.observe.lines import JsonOutput, TextOutput
from node.options import NodeOptions
from node.runtime.contributions.jobs import JobSums
from node.runtime.contributions.learning import Learning
from node.runtime.engine import Engine
from node.runtime.plan import Plan
from node.runtime.record.artifacts import Folder
from node.runtime.record.ending import Alone, End
from node.runtime.record.events import NodeEvent, Observer
from node.storage.vector_files import Floats
from node.storage.whole_files import ANYBODYS, replace_file
from node.system.errors import ConfigError, reason, shown
from node.system.system import SYSTEM, System
from node.task.parameters import canonical_parameters
from node.task.rules import shared_values
from protocol.wire.messages import Base


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


def own_file(options: NodeOptions, who_needs: str) -> Path:
    """Returns the path of this node's own rows. ConfigError, which says `who_needs` them: there is none."""
    source = options.task.data.source
    path = options.data if options.data is not None else Path(source) if source is not None else None
    if not isinstance(path, Path) or options.shard is not None:
        raise ConfigError(
            f"{who_needs} a file of this node's own rows; allowed: --data PATH, without --shard"
        )
    return path


def job_parameters(
    options: NodeOptions, name: str, shape: tuple[str, int], shared: Mapping[str, object]
) -> str:
    """Returns the canonical text of all that the members of a job share: the whole task with a section.

    `name`: the section's; `shared`: its values; `shape`: what the job's numbers are, and how many.
    """
    task = options.task
    whole = replace(task, aggregation=replace(task.aggregation, dropouts=0))
    what, length = shape
    shapes = [(what, (length,))]
    text = canonical_parameters(whole, shapes, None, roster=options.roster, again=begun_again(options))
    found = {**json.loads(text), name: shared}
    return json.dumps(found, sort_keys=True, separators=(",", ":"), allow_nan=False, default=shared_values)


@dataclass(frozen=True)
class JobEnd:
    """A node's exit status, and its last base with the vector (d,)."""

    status: int
    base: Base
    vector: Floats
    stopped: Alone | None = None
    """Why the job is unfinished, if that is because one of its members is gone."""


def run_job(prepared: Prepared, texts: Callable[[NodeEvent], tuple[str, ...]]) -> JobEnd:
    """Runs a job's node to its end. Raises UserError.

    `texts`: an event in words for the terminal.
    """
    options, ends = prepared.options, list[tuple[Base, Floats]]()

    async def live(engine: Engine, _: object) -> None:
        await until_done_or_told(engine, options.drain_timeout_s, show=None)
        ends.append(engine.agreed)

    observer: Observer = JsonOutput(sys.stdout) if options.json else TextOutput(sys.stdout, texts)
    try:
        return JobEnd(run_as(prepared, None, observer, live), *ends[-1])
    except Alone as error:
        if error.end is not End.UNFINISHED:
            raise
        return JobEnd(error.status, *ends[-1], stopped=error)


def write_result(path: Path, content: bytes) -> None:
    """Writes a file that anybody may read, which --write names. Raises ConfigError."""
    try:
        replace_file(path, (content,), durable=True, mode=ANYBODYS)
    except OSError as error:
        raise ConfigError(f"--write {shown(str(path))} cannot be written: {reason(error)}") from None
