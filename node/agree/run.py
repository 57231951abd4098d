r"""An agreement: an ordinary node, whose job is one sum over all rows.

survey --> offer --> Completed: the swarm's totals --> the same task file at every peer
             \---> Failed: tried again, as far as the share of the budget allows

With privacy, the node adds noise to the sums before it offers them: an offer that left is spent, and another
try draws and charges new noise (node.jobs.survey).
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mechanisms.mechanism import Mechanism
from mechanisms.noise.randomness import SystemWords
from mechanisms.record_sums import FINEST, RecordSums
from node.agree.outcome import Agreed, agreed, totals
from node.agree.survey import absent_columns, survey
from node.agree.task_file import agreed_text
from node.agree.width import check_narrowing, with_classes
from node.app.jobs import job_parameters, own_file, prepare_job, run_job, write_result
from node.app.run import Prepared
from node.app.start_checks import check_others, named_members, nicknames
from node.app.study import About
from node.cli.sigint import INTERRUPTED
from node.data.report import Report
from node.data.sources import drawing_of
from node.jobs.survey import Survey, totals_in
from node.observe.lines import event_texts, missing_text
from node.options import NodeOptions
from node.runtime.record.ending import Alone, End
from node.runtime.record.events import Finished, NodeEvent, RoundEnded
from node.storage.vector_files import Floats
from node.system.errors import ConfigError, UserError, shown
from node.system.system import SYSTEM, System
from node.task.agreed_sums import parts
from node.task.agreement_noise import in_rows, is_drowned, noise_in_sum, noise_of
from node.task.data_schema import Schema
from node.task.load import read_task
from node.task.rules import shared_values
from node.task.sections import Task
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Base

ROUNDS = 10
"""How many tries a node makes to form a group before it gives up; --rounds replaces it."""
NO_AGREEMENT = (
    "no agreement, for the reasons above: nothing is written; start all peers again, each with the "
    "same --out, which records what was spent (docs/data.md says what to do if that was everything)"
)
NOTHING_CHARGED = (
    "nothing is written, and nothing was charged; start all peers again, each with the same --out, or let "
    "all go on without whoever is missing: --without NAME"
)
_SURE = 6.0  # standard errors: one mark in a billion is then read wrong


def agreement_texts(event: NodeEvent, tries: int = ROUNDS) -> tuple[str, ...]:
    """Returns an event in words, without those of learning; `agree` itself reports the result."""
    match event:
        case RoundEnded(record) if record.reason is None:
            return (f"agreement: {record.participants} peers agreed",)
        case RoundEnded(record):
            missing = f" (missing {missing_text(record)})" if record.missing else ""
            return (f"agreement, try {record.alone} of up to {tries}: none ({record.reason}){missing}",)
        case Finished():
            return ()
        case _:
            return event_texts(event)


def agree(options: NodeOptions, written: Path, without: Sequence[str] = ()) -> int:
    """Agrees with the other peers and writes the task to `written`; returns the exit status.

    `without`: the named peers that nobody waits for. Raises UserError if there is no agreement.
    """
    options = replace(options, task=with_classes(options.task))
    prepared = prepare_agreement(options, without=without)
    try:
        end = run_job(prepared, partial(agreement_texts, tries=prepared.plan.tries))
    except Alone as error:
        if error.end is End.NOBODY_CAME:
            raise UserError(f"no agreement: {error.why}: {NOTHING_CHARGED}") from None
        raise UserError(f"{NO_AGREEMENT} ({error.why})") from None
    if end.base.generation == 0 and end.status == INTERRUPTED:
        return end.status
    _tell(conclude(prepared, options.task, end.base, end.vector, written), end.base, written, options)
    return end.status


def conclude(prepared: Prepared, task: Task, base: Base, vector: Floats, written: Path) -> Agreed:
    """Writes the task that follows from the last base; returns what was agreed.

    Raises UserError if that base is no agreement.
    """
    if base.generation == 0:
        raise UserError(NO_AGREEMENT)
    mechanism = prepared.learning.mechanism
    unit = mechanism.unit if isinstance(mechanism, RecordSums) else FINEST
    found = agreed(task, totals(totals_in(vector), base.members, noise_in_sum(mechanism, 1), unit))
    save(written, agreed_text(task, found, base, written))
    return found


def _tell(found: Agreed, base: Base, written: Path, options: NodeOptions) -> None:
    """Prints the result for the owner."""
    if options.json:
        told = {"file": str(written), "peers": base.members, "digest": base.digest.hex()}
        print(json.dumps({"event": "agreed", **told}), flush=True)
        return
    headline = f"agreed with {base.members} peers (digest {base.digest.hex()[:16]}, the same at all of them)"
    data = f" --data {options.data}" if options.data is not None else ""
    lines = Report(headline, found.entries, ()).lines()
    print(
        "\n".join([*lines, f"{written} is written", f"next: python -m node.check {written}{data}"]),
        flush=True,
    )


def save(path: Path, text: str) -> None:
    """Writes `text` if it is a valid task; raises ConfigError if it is not or cannot be written."""
    read_task(tomllib.loads(text))
    write_result(path, text.encode())


def prepare_agreement(options: NodeOptions, system: System = SYSTEM, without: Sequence[str] = ()) -> Prepared:
    """Reads schema and rows and computes the sums; raises ConfigError for any error in them.

    A group has all named peers but those of `without`, and its sum has all of the group.
    """
    check_others(options)
    task, section = options.task, options.task.agreement
    path, schema = own_file(options, "node.agree needs"), _schema_of(task)
    mechanism = noise_of(task, schema)
    check_narrowing(task)
    _check_marks(options, mechanism)
    private = mechanism if isinstance(mechanism, RecordSums) else None
    unit = FINEST if private is None else private.unit
    by_person = None if task.rows_per_person is None else drawing_of(task)
    sums = survey(
        path, schema, unit, section.records, absent_columns(path, schema, section), drawing=by_person
    )
    plain = replace(task.aggregation.without_slots, shares="seed", loss_gate=None, dropouts=0)
    plain = replace(plain, min_participants=_least(options, without))
    own_noise = replace(task.privacy, honest=None)  # in the only round each peer adds noise of its own
    return prepare_job(
        replace(options, task=replace(task, privacy=own_noise, aggregation=plain)),
        About(
            data=f"{path.name}: {int(sums[0] * unit)} {'rows' if by_person is None else 'persons'}",
            what=f"agreement on {len(sums)} sums",
            notes={
                "schema": "its names, ranges and lists are public to all peers; no noise covers them",
                **_precision(mechanism, plain.min_participants, int(sums[0] * unit)),
            },
        ),
        Survey(sums, unit, private, SystemWords(system.entropy)),
        mechanism,
        parameters=job_parameters(options, "agreement", ("sums", len(sums)), _shared(task)),
        # Not the task's own name: the agreed task gets the remaining budget and starts a new ledger.
        name=f"agreement on {task.task.name}",
        sums=1,
        tries=options.rounds or ROUNDS,
        system=system,
    )


def _precision(mechanism: Mechanism, peers: int, rows: int) -> dict[str, str]:
    """Returns the line on how precise the sums will be, for the owner of so many rows; none without noise."""
    doubt = noise_in_sum(mechanism, peers)
    if not doubt:
        return {}
    text = f"each sum is off by about {in_rows(doubt)} rows"
    if is_drowned(doubt, rows * peers):
        text += (
            f", which drowns {peers} peers of {rows:,} rows: ranges and lists will stay as they are, and the "
            "share of epsilon is spent for nothing; end this now, and learn with the task as it is"
        )
    return {"precision": text}


def _least(options: NodeOptions, without: Sequence[str]) -> int:
    """Returns the fewest peers of an agreement: all that --peers names, but those of `without`.

    Raises ConfigError unless `without` names some of the others, each as --peers or --names does.
    """
    least, named = options.task.aggregation.min_participants, named_members(options)
    names = nicknames(options).names
    known = {peer.endpoint: peer.endpoint for peer in options.peers}
    known |= {names[peer.key]: peer.endpoint for peer in options.peers if peer.key and peer.key in names}
    known.pop(options.listen or "", None)
    unknown = [name for name in without if name not in known]
    if unknown:
        raise ConfigError(
            f"--without {shown(unknown[0])} is refused; allowed: another peer as --peers or --names has it: "
            f"{', '.join(sorted(known)) or 'none is named'}"
        )
    waited_for = len(named) - len({known[name] for name in without})
    if without and waited_for < least:
        raise ConfigError(
            f"--without leaves {waited_for} of {len(named)} peers; allowed: at least {least}, for "
            "aggregation.min_participants"
        )
    return max(least, waited_for)


def _check_marks(options: NodeOptions, mechanism: Mechanism) -> None:
    """Raises ConfigError if the noise might hide which columns a peer lacks, at `_SURE` standard errors."""
    section = options.task.agreement
    if not section.leave_out_missing:
        return
    least = math.ceil(2 * _SURE * noise_in_sum(mechanism, len(options.peers) or MAX_MEMBERS))
    if section.records < least:
        raise ConfigError(
            f"agreement.records = {section.records} is refused with agreement.leave_out_missing: noise could "
            f"hide which columns a peer lacks; allowed: {least} or more, at all peers"
        )


def _schema_of(task: Task) -> Schema:
    """Returns the schema by which this node reads its file; raises ConfigError if there is nothing to sum."""
    schema = task.data.own_schema
    if schema is None:
        raise ConfigError(
            f"task {shown(task.task.name)} has no data.schema, so there is nothing to agree on; "
            "python -m node.init --agree writes one"
        )
    parts(schema)
    return schema


def _shared(task: Task) -> dict[str, Any]:
    """Returns what all peers of an agreement must share of its section."""
    section = shared_values(task.agreement)
    for name, usual in (("leave_out_missing", False), ("classes", ())):  # as before there were such keys
        if section[name] == usual:
            del section[name]
    return section
