"""Statistics by a swarm: an ordinary node, whose job is the task's `[statistics]`.

    without privacy   exact sums, all of the members of the first one (node.jobs.cohort)
    with privacy      table one alone, by one sum with noise, which `statistics.share` of the budget pays for

At the end each member has the same base, and writes the same report from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mechanisms.joint_release import JointNoise
from mechanisms.mechanism import CountPlan, Guarantee, Mechanism, Unprotected
from mechanisms.noise.randomness import SystemWords
from mechanisms.noised_counts import count_noise
from mechanisms.units import ONE_RECORD
from node.app.again import begin_again
from node.app.jobs import JobEnd, job_parameters, own_file, prepare_job, run_job, write_result
from node.app.run import Prepared
from node.app.start_checks import existing_key, key_file_exists, key_path, nicknames
from node.app.study import About
from node.cli.asking import affirmed
from node.cli.sigint import INTERRUPTED
from node.jobs.cohort import Cohort
from node.jobs.job import Job
from node.jobs.statistics.columns import Column, Table, rows_of
from node.jobs.statistics.counts import SUMS
from node.jobs.statistics.newton import MOST_SUMS
from node.jobs.statistics.private import PrivateCounts, PrivateStatistics
from node.observe.lines import event_texts, missing_text
from node.options import NodeOptions
from node.runtime.record.events import Finished, NodeEvent, RoundEnded
from node.stats.disclosure import LEAST_CELL
from node.stats.noised import noised_results
from node.stats.plan import Plan, check_rows, plan
from node.stats.report import as_json, html
from node.stats.results import has_table_one, results, site_summary
from node.stats.rows import columns_of, read_rows
from node.stats.rows_before import CountedRows
from node.stats.summaries import MINE, Results, SiteSummary
from node.stats.tables import as_csv, table_one_text
from node.storage.vector_files import Floats
from node.system.errors import ConfigError, UserError, shown
from node.system.system import SYSTEM, System
from node.task.rules import shared_values
from node.task.sections import Task
from node.task.shared_noise_keys import DISTRIBUTED
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Base

TRIES = 10
"""How many rounds alone in a row end it; --rounds replaces it."""
EXACT_WARNING = (
    "statistics without privacy open exact totals: the program of each member sees them, also those that the "
    "report hides, and all the others together can compute yours"
)
SITES_SHOWN = (
    "statistics.per_site shows each member's own counts, means and deviations, but for those of few rows"
)
REPORT_HIDES = (
    f"the report prints counts of 1 to {LEAST_CELL - 1} as < {LEAST_CELL}, hides a second one where a total "
    "would tell the first, prints no minimum or maximum, and ends curves where fewer than "
    f"{LEAST_CELL} are at risk"
)


@dataclass(frozen=True)
class Work:
    """A member's job, what its last base shows, and the noise that it pays for."""

    job: Job
    shown_by: Callable[[Floats, int], Results | None]
    """What a base of so many members shows; None: nothing yet."""
    mechanism: Mechanism
    sums: int
    notes: Mapping[str, str]
    """Lines for the owner, by what they are about."""
    mine: SiteSummary | None = None
    """This member's own column of its report; None: none, as the report has noise."""
    opened: Callable[[], None] = lambda: None
    """Notes that totals of these rows were opened."""


def work_of(task: Task, asked: Plan, table: Table, system: System) -> Work:
    """Returns the job of a member with these rows; ConfigError for what the task's privacy does not allow."""
    if task.privacy.mechanism == "none":
        job = Cohort(asked.job(table))
        return Work(
            job=job,
            shown_by=lambda base, members: _shown(asked, job.of_job(base), members),
            mine=site_summary(asked.sites.alone(table), asked, MINE),
            mechanism=Unprotected(),
            sums=max(SUMS, MOST_SUMS + 1),
            notes={
                "privacy": EXACT_WARNING,
                "report": REPORT_HIDES,
                **({"sites": SITES_SHOWN} if task.statistics.per_site else {}),
            },
        )
    counts, mechanism = _private(task, asked)
    guarantee = mechanism.guarantee
    return Work(
        job=PrivateStatistics(counts, table, SystemWords(system.entropy)),
        shown_by=lambda base, _: noised_results(counts, base, guarantee.epsilon, guarantee.delta),
        mechanism=mechanism,
        sums=1,
        notes={},
    )


def _shown(asked: Plan, base: Floats, members: int) -> Results | None:
    return results(asked, base, members) if has_table_one(asked, base) else None


def _private(task: Task, asked: Plan) -> tuple[PrivateCounts, JointNoise]:
    privacy, section = task.privacy, task.statistics
    if privacy.mechanism not in ("dp-sgd", DISTRIBUTED) or task.rows_per_person is not None:
        what = (
            f"privacy.mechanism = {shown(privacy.mechanism)}"
            if task.rows_per_person is None
            else "data.person with privacy"
        )
        raise ConfigError(
            f"{what} does not go with statistics, whose noise is for one row; allowed: 'dp-sgd', "
            f"{DISTRIBUTED!r} or 'none', and no data.person"
        )
    for name, value in (
        ("tables", section.tables),
        ("models", section.models),
        ("survival", section.survival),
        ("per_site", section.per_site),
    ):
        if value:
            raise ConfigError(
                f"statistics.{name} is refused with privacy: table one alone is noised; leave it out, or set "
                "privacy.mechanism = 'none' at all members"
            )
    epsilon, delta = section.share * privacy.epsilon, section.share * privacy.delta
    noise = count_noise(CountPlan(1.0, section.tries), epsilon, delta, privacy.honest or 0)
    try:
        counts = PrivateCounts.of(asked.columns, asked.table_one.by, noise, section.records, MAX_MEMBERS)
    except ValueError as error:
        raise ConfigError(f"statistics: {error}") from None
    return counts, JointNoise(noise, Guarantee(ONE_RECORD, epsilon, delta, epsilon, honest=privacy.honest))


def prepare_statistics(options: NodeOptions, system: System = SYSTEM) -> tuple[Prepared, Work]:
    """Reads the rows and makes the job; raises ConfigError for whatever would fail."""
    task = options.task
    path, columns = own_file(options, "statistics need"), _columns_of(task)
    asked = plan(task.statistics, columns, _own_key(options))
    schema = task.data.own_schema
    table = read_rows(path, schema, asked.events) if schema is not None else {}
    check_rows(asked, table, f"data {shown(str(path))}")
    work = _remembered(work_of(task, asked, table, system), options, table, system)
    plain = replace(task.aggregation.without_slots, shares="seed", loss_gate=None, dropouts=0)
    prepared = prepare_job(
        replace(options, task=replace(task, aggregation=plain)),
        About(
            data=f"{path.name}: {rows_of(table)} rows",
            what=f"statistics of {len(columns)} columns",
            notes=work.notes,
        ),
        work.job,
        work.mechanism,
        parameters=job_parameters(
            options, "statistics", ("statistics", work.job.length), shared_values(task.statistics)
        ),
        name=f"statistics of {task.task.name}",
        sums=work.sums,
        tries=options.rounds or TRIES,
        system=system,
    )
    return prepared, work


def _remembered(work: Work, options: NodeOptions, table: Table, system: System) -> Work:
    """Returns the work with a warning if it was done before on nearly the same rows, and that it is noted."""
    key_file = key_path(options)
    if key_file is None or options.task.privacy.mechanism != "none":
        return work
    before = CountedRows.beside(key_file, system)
    sketch = before.sketch(table)
    warning = before.warning(sketch, options.task.statistics.least_rows)
    notes = {**work.notes, **({"rows": warning} if warning else {})}
    return replace(work, notes=notes, opened=partial(before.keep, sketch, system))


def _own_key(options: NodeOptions) -> Key:
    """Returns this node's key if each member has a column of its own, whose place follows from it."""
    if not options.task.statistics.per_site:
        return b""
    if not key_file_exists(options):
        raise ConfigError(
            "statistics.per_site = true needs this node's key before it starts; python -m node.key FILE "
            "makes one, and --key FILE names it"
        )
    return existing_key(options).public


def _columns_of(task: Task) -> dict[str, Column]:
    if task.data.own_schema is None:
        raise ConfigError(
            f"task {shown(task.task.name)} has no data.schema, so there is nothing to count; "
            "python -m node.init --agree writes one"
        )
    return columns_of(task.data.own_schema)


def event_lines(event: NodeEvent, tries: int = TRIES) -> tuple[str, ...]:
    """Returns an event in words, without those of learning."""
    match event:
        case RoundEnded(record) if record.reason is None:
            return (f"sum {record.round} of {record.participants} members",)
        case RoundEnded(record):
            missing = f" (missing {missing_text(record)})" if record.missing else ""
            return (f"no sum, try {record.alone} of up to {tries} ({record.reason}){missing}",)
        case Finished():
            return ()
        case _:
            return event_texts(event)


def stats(options: NodeOptions, written: Path) -> int:
    """Computes the statistics with the other members, writes them, and returns the exit status.

    Raises UserError if they are not done.
    """
    begin_again(options, affirmed)
    prepared, work = prepare_statistics(options)
    end = run_job(prepared, partial(event_lines, tries=prepared.plan.tries))
    if end.base.generation:
        work.opened()
    return conclude(options, work, end, written)


def conclude(options: NodeOptions, work: Work, end: JobEnd, written: Path) -> int:
    """Writes what the last base shows, and returns the exit status. Raises UserError if that is not all."""
    if not work.job.is_over(end.vector) and end.stopped is None:
        if end.status == INTERRUPTED:
            return end.status
        raise UserError(
            "the statistics are not done: nothing is written; start all again, each with the same --out"
        )
    found = work.shown_by(end.vector, end.base.members)
    if found is not None:
        unfinished = None if end.stopped is None else end.stopped.why
        names = nicknames(options)
        sites = tuple(replace(one, name=names.of(one.name) or one.name) for one in found.sites)
        found = replace(found, unfinished=unfinished, sites=sites)
        _tell(found, work.mine, end.base, written, options)
    if end.stopped is not None:
        raise end.stopped
    return end.status


def _tell(found: Results, mine: SiteSummary | None, base: Base, written: Path, options: NodeOptions) -> None:
    """Writes the files, and says so."""
    digest = base.digest.hex()
    made = f"Digest {digest[:16]}, the same at all members. Task {options.task.task.name}."
    files = save(found, made, written, mine)
    if options.json:
        told = {"files": list(map(str, files)), "members": found.members, "digest": digest}
        told |= {"unfinished": found.unfinished} if found.unfinished else {}
        print(json.dumps({"event": "statistics", **told}), flush=True)
    else:
        unfinished = ", unfinished" if found.unfinished else ""
        print("\n".join(f"{path} is written{unfinished}" for path in files), flush=True)


def save(found: Results, made: str, written: Path, mine: SiteSummary | None = None) -> tuple[Path, ...]:
    """Writes the report, all figures as JSON and table one as CSV beside it; returns their paths.

    `mine`: this member's own column, which stands in the report alone.
    """
    contents = {
        written: html(found, made, mine).encode(),
        written.with_suffix(".json"): as_json(found).encode(),
        written.with_name(f"{written.stem}-table1.csv"): as_csv(table_one_text(found.table_one, found.sites)),
    }
    for path, content in contents.items():
        write_result(path, content)
    return tuple(contents)
