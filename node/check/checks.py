"""The checks of `python -m node.check`: the steps of a node's start, and what a start does not say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from math import prod, sqrt
from pathlib import Path

import numpy as np
from torch import nn

from mechanisms.accounting.ledger import Ledger, privacy_spent
from mechanisms.mechanism import Mechanism
from mechanisms.updates.distributed import DistributedDP
from node.app.kept_split import SPLIT, kept_split, split_words
from node.app.start_checks import STEPS, check_members, check_rounds, key_path
from node.check.finding import Finding, Level
from node.check.learner import learner_findings
from node.check.own_cells import own_cells
from node.check.probe import Meeting, meet_all
from node.check.statistics import statistics_findings
from node.check.trial import tried
from node.data.dataset import Dataset, load_dataset, own_rows
from node.data.files.csv_and_parquet import read_frame
from node.data.free_text import lost_texts
from node.data.persons import equal_rows, nearly_equal, renumbered
from node.data.report import Report
from node.data.rows import Rows
from node.data.sources import read_source
from node.data.text.sentences import find_encoder
from node.data.unread import unread_columns
from node.init.proposal import LOUD_SHARED_NOISE, loud_noise
from node.init.texts import text_note
from node.net.incoming.listening import DEFAULT, listen
from node.net.tls import WrongPeer, covers, make_dialling
from node.options import NodeOptions
from node.runtime.clocks import skew_words
from node.runtime.contributions.learning import Learning, design, make_learning
from node.runtime.contributions.metric_notes import cell_words, cost_of_counts
from node.runtime.known_tracker import KnownTracker
from node.runtime.privacy.budget import (
    can_train,
    noise_of_counts,
    planned_by_honest,
    trust_text,
)
from node.runtime.privacy.group_guarantees import check_length
from node.storage.allow_list import read_allow_list
from node.storage.folder_lock import TRACKER
from node.storage.key_file import read_key
from node.system.errors import UserError, counted, shown
from node.system.free_memory import free_bytes
from node.task.data_schema import HASHED, TableSchema
from node.task.parameters import canonical_parameters
from node.task.sections import BUILT_IN_SOURCES, Task
from node.task.table_models import SAME_MEMBERS, is_exact, opened
from node.training.trainer import Shapes, Trainer
from protocol.swarm.meeting.discovery import OTHER_KEY
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_PARAMETERS_CHARS

_VECTORS = 14
"""Vectors of d parameters that a node holds at its peak: models, offer, masks, totals, optimiser state."""
_CHUNK_BYTES = 16 << 24
"""Most bytes that per-row gradients take, unless one row alone needs more."""
_PIECES_BYTES = 4 << 20
"""Bytes of pieces in transit from one other member."""
_TORCH_BYTES = 400 << 20
_WORD_BYTES, _CELL_BYTES = 128, 40
"""The most that an exact job takes for each word of a sum, whose matrix has floats, and each cell of rows."""
_COPIES = 1.5
"""A model that is not trained, and what its making and a pass through it take beside."""
_WORTH_SAYING = 32 << 20
_CLOCK_S = 60
_DROWNED = 0.02
"""The share of all test rows that the noise of a count may have before a figure says little."""


def check_all(options: NodeOptions, met: bool) -> Iterator[Finding]:
    """Yields the findings one by one. `met`: whether the options name peers or a tracker.

    The last ones are what a start would refuse and nothing before has told.
    """
    told = set()
    for finding in _findings(options, met):
        told.add(finding.text)
        yield finding
    for subject, step in STEPS.items():
        if subject == "peers" and not met:  # somebody stands in for them
            continue
        try:
            step(options)
        except UserError as error:
            if str(error) not in told:
                yield Finding("problem", subject, str(error))


def _findings(options: NodeOptions, met: bool) -> Iterator[Finding]:
    learns, exact = options.task.learns, is_exact(options.task)
    long = "exact sums of the same members" if exact else counted(_rounds(options), "round")
    yield Finding("ok", "task", f"{options.task.task.name}, {long if learns else 'statistics alone'}")
    if exact:
        yield Finding("warning", "opened", f"{opened(options.task)}. Members are {SAME_MEMBERS}")
        yield from _refused_rounds(options)
    if options.privacy_note:
        yield Finding("warning", "noise", options.privacy_note)
    if options.task.model.learner is not None:
        yield from learner_findings(options)
    elif learns:
        yield from _lessons(options)
    yield from statistics_findings(options)
    here, place = _place(options, met)
    if place is not None:
        yield place
    yield from _keys(options)
    if met:
        yield from _peers(options, here)


def _lessons(options: NodeOptions) -> Iterator[Finding]:
    """Checks the rows, and what is learned from them."""
    dataset = None
    try:
        dataset, findings = _data(options)
        yield from findings
    except UserError as error:
        yield Finding("problem", "data", str(error))
    if path := _own_path(options):
        yield from own_cells(path, options.task.data, fits=dataset is not None)
    if dataset is not None:
        yield from _learning(options, dataset)


def _refused_rounds(options: NodeOptions) -> Iterator[Finding]:
    try:
        check_rounds(options)
    except UserError as error:
        yield Finding("problem", "rounds", str(error))


def _rounds(options: NodeOptions) -> int:
    return options.rounds or options.task.train.rounds


# -- data, model, privacy, memory --------------------------------------------------------------------------


def _data(options: NodeOptions) -> tuple[Dataset, list[Finding]]:
    """Loads the rows as the node would."""
    path, split = _own_path(options), kept_split(options)
    if path is None:
        dataset = load_dataset(options.task, options.data, options.shard, split)
        return dataset, [Finding("ok", "data", dataset.description)]
    source = read_source(path, options.task)
    dataset = own_rows(source, options.task, split)
    level, hint = _doubts(source.report)
    level = "warning" if level == "ok" and not dataset.validates else level
    told, schema = list(source.report.lines()[1:]), options.task.data.own_schema
    if isinstance(schema, TableSchema) and (unread := unread_columns(path, schema, options.task.data.person)):
        told += lost_texts(read_frame(path, unread, dialect=schema.written), ())
    findings = [Finding(level, "data", dataset.description + hint, told), *_persons(source, dataset)]
    private = options.task.privacy.mechanism != "none"
    if isinstance(schema, TableSchema) and (said := text_note(schema, private)):
        findings.append(Finding("warning", "text", said))
    if source.persons is None and (said := equal_rows(source.draws, options.task.privacy.noises_rows)):
        findings.append(Finding("warning", "rows", said))  # rows that may be one person's
    return dataset, findings


def _own_path(options: NodeOptions) -> Path | None:
    """Returns the file or folder of this node's own rows; None if there is none."""
    if options.data is not None or options.shard is not None:
        return options.data if isinstance(options.data, Path) else None
    source = options.task.data.source
    return None if source is None or source in BUILT_IN_SOURCES else Path(source)


def _persons(source: Rows, dataset: Dataset) -> Iterator[Finding]:
    """Says whose the rows are, and warns about names that may be one person's."""
    whose, of = source.persons, dataset.persons
    if whose is None or of is None:
        return
    counts = np.bincount(renumbered(whose.numbers))
    text = (
        f"{counted(len(counts), 'person')} by column {shown(whose.column)}, of {counts.min()} to "
        f"{counted(int(counts.max()), 'row')}; {of.count} to train on"
    )
    blank = len(counts) - len(whose.names)
    if alike := nearly_equal(whose.names):
        one, other = alike[0]
        more = f", as {counted(len(alike) - 1, 'other pair')} are" if len(alike) > 1 else ""
        text += f"; {shown(one)} and {shown(other)} are two persons{more}: write each person in one way"
    elif blank > 0:
        text += f"; {counted(blank, 'row')} without a name, each a person of its own"
    yield Finding("warning" if alike or blank > 0 else "ok", "persons", text)


def _doubts(report: Report) -> tuple[Level, str]:
    """Returns a problem if a column is lost, a warning if one has no value, or a class no row."""
    if lost := [f"{entry.column}: {entry.lost}" for entry in report.entries if entry.lost]:
        return "problem", _first(lost)
    empty = [entry.column for entry in report.entries if entry.remark.startswith("NO VALUE")]
    if empty:
        return "warning", f"; no value at all in {', '.join(empty)}: is the column named or filled otherwise?"
    if odd := [f"{entry.column}: {entry.doubt}" for entry in report.entries if entry.doubt]:
        return "warning", _first(odd)
    if any("without a row" in entry.remark for entry in report.entries):
        return "warning", "; some classes have no row here: that is fine if other peers have them"
    return "ok", ""


def _first(told: Sequence[str]) -> str:
    """Returns the end of a line with what was found, at most three of it."""
    more = f"; and {counted(len(told) - 3, 'more column')}" if len(told) > 3 else ""
    return f"; {'; '.join(told[:3])}{more}"


def _learning(options: NodeOptions, dataset: Dataset) -> Iterator[Finding]:
    """Checks model, budget, noise and memory for these rows."""
    task = options.task
    try:
        designed = design(task, dataset)
    except UserError as error:
        yield Finding("problem", "model", str(error))
        return
    model, named, mechanism = designed.model, designed.named, designed.mechanism
    yield _model(task, named, mechanism)
    for kept in split_words(kept_split(options), mechanism).values():
        yield Finding("warning", SPLIT, kept)
    learning, findings = _training(options, dataset, model, mechanism)
    yield from findings
    yield _budget(options, mechanism)
    if isinstance(mechanism, DistributedDP):
        yield from (Finding("ok", *line) for line in cell_words(mechanism).items())
        yield _steps(options, mechanism)
    yield from _counts(options, mechanism, len(dataset.test_y))
    yield from _noise(task, named, mechanism)
    memory = _memory(options, named, dataset, mechanism, learning)
    yield memory
    if learning is not None and memory.level != "problem":
        yield _trial(options, dataset, mechanism)


def _training(
    options: NodeOptions, dataset: Dataset, model: nn.Module, mechanism: Mechanism
) -> tuple[Learning[Trainer] | None, list[Finding]]:
    """Prepares training as a node does, None if that fails; says how it computes gradients of single rows."""
    try:
        learning = make_learning(options.task, model, dataset, options.seed, mechanism)
        check_length(options.task.aggregation, _members(options), learning.offered)
    except UserError as error:
        return None, [Finding("problem", "training", str(error))]
    if mechanism.gradient is None and not isinstance(mechanism, DistributedDP):
        return learning, []
    how = "of single rows by book-keeping, whatever other rows are in a batch"
    if learning.trainer.slow:
        return learning, [Finding("warning", "gradients", f"slow: {learning.trainer.slow}")]
    return learning, [Finding("ok", "gradients", how)]


def _trial(options: NodeOptions, dataset: Dataset, mechanism: Mechanism) -> Finding:
    """Trains for two epochs on a sample of the rows."""
    try:
        return tried(options.task, dataset, options.seed, mechanism, _members(options))
    except (UserError, ValueError) as error:
        return Finding("warning", "learning", f"it could not be tried: {error}")


def _members(options: NodeOptions) -> int:
    """Returns how many members a group has, as far as is known."""
    return max(options.task.aggregation.min_participants, len(options.peers))


def _model(task: Task, named: Shapes, mechanism: Mechanism) -> Finding:
    size = sum(prod(shape) for _, shape in named)
    told = len(canonical_parameters(task, named, bound=None))
    if told > MAX_PARAMETERS_CHARS:
        return Finding(
            "problem",
            "model",
            f"names of tensors and schema come to {told} characters, which nodes tell each other; allowed: "
            f"at most {MAX_PARAMETERS_CHARS}; choose fewer columns, shorter names or fewer tensors",
        )
    return Finding("ok", "model", f"{task.model.cls}, {size} parameters, takes these rows")


def _budget(options: NodeOptions, mechanism: Mechanism) -> Finding:
    guarantee, rounds = mechanism.guarantee, _rounds(options)
    if guarantee is None:
        return Finding("ok", "budget", "no privacy mechanism, nothing is counted")
    budget = f"epsilon {guarantee.stated:g} at delta {guarantee.delta:g}"
    if isinstance(mechanism, DistributedDP):
        return Finding("ok", "budget", trust_text(planned_by_honest(mechanism), guarantee.unit))
    lasts = rounds_within(mechanism, rounds)
    if lasts < rounds:
        return Finding(
            "warning",
            "budget",
            f"{budget} lasts {lasts} of {rounds} rounds, after which this node offers nothing and learns "
            f"from the others; raise privacy.epsilon, or run the {options.task.train.rounds} of the task",
        )
    events = (*mechanism.per_training, *mechanism.per_offer) * rounds
    counts = noise_of_counts(mechanism)
    more = () if counts is None else (counts.event,) * counts.releases
    cost = privacy_spent(Ledger.of((*events, *more)), guarantee.delta).epsilon
    beside = " with their counts" if more else ""
    return Finding("ok", "budget", f"{budget} lasts all {rounds} rounds, which cost {cost:.3g}{beside}")


def _counts(options: NodeOptions, mechanism: Mechanism, rows: int) -> Iterator[Finding]:
    """Says what counts for a metric of all rows cost, and warns if their noise drowns so few rows."""
    noise, section = noise_of_counts(mechanism), options.task.aggregation
    if noise is None:
        return
    members = _members(options)
    std = noise.noise_multiplier * sqrt(members / (noise.honest + 1))
    text = (
        f"every {section.swarm_metric_every} rounds, of {rows} test rows here; {cost_of_counts(mechanism)}; "
        f"with {members} members each number in their sum is off by about {std:.2g} rows"
    )
    if std > _DROWNED * rows * members:
        advice = "which drowns so few rows; raise privacy.metric_share or privacy.epsilon, or count rarely"
        yield Finding("warning", "metric of all", f"{text}, {advice}")
    else:
        yield Finding("ok", "metric of all", text)


def _steps(options: NodeOptions, mechanism: DistributedDP) -> Finding:
    """Says what was chosen for the steps of all members, and warns if their noise is large."""
    train, rule, unit = options.task.train, mechanism.shared, options.task.unit
    members = _members(options)
    noise = rule.share_std / rule.gradient.clipping_radius * sqrt(members * rule.size) / rule.expected_batch
    text = (
        f"{(train.steps or 0) - options.task.cell_sums} of them, a round is {train.report_every}; each has "
        f"{rule.expected_batch:g} of about {train.expected_rows} {unit}s of all peers, in the mean; "
        f"{train.optimizer}, learning rate {train.learning_rate:g}, gradients clipped to "
        f"{rule.gradient.clipping_radius:g}; with {members} "
        f"members the noise is {noise:.2g} times what one {unit} can move a step"
    )
    if noise > LOUD_SHARED_NOISE:
        advice = "so little will be learned; take a larger privacy.epsilon, a smaller model, or more rows"
        return Finding("warning", "steps", f"{text}, {advice}")
    return Finding("ok", "steps", text)


def rounds_within(mechanism: Mechanism, rounds: int) -> int:
    """Returns how many of `rounds` rounds a new ledger allows, by bisection: the cost only grows."""
    events = (*mechanism.per_training, *mechanism.per_offer)
    low, high = 0, rounds
    while low < high:
        middle = (low + high + 1) // 2
        fits = can_train(mechanism, Ledger.of(events * (middle - 1)), ())
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _noise(task: Task, named: Shapes, mechanism: Mechanism) -> Iterator[Finding]:
    """Warns if the noise in private steps is too large for learning."""
    rule = mechanism.gradient
    if rule is None:
        return
    size = sum(prod(shape) for _, shape in named)
    noise = rule.noise_multiplier * sqrt(size) / task.train.batch_size
    if noise > loud_noise(task.model.body):
        yield Finding(
            "warning",
            "noise",
            f"a step's noise is {noise:.2g} times what one {task.unit} can move it, so little will be "
            "learned; take a larger privacy.epsilon or train.batch_size, a smaller model, or more "
            f"{task.unit}s",
        )
    else:
        yield Finding("ok", "noise", f"a step's noise is {noise:.2g} times what one {task.unit} can move it")


def _memory(
    options: NodeOptions,
    named: Shapes,
    dataset: Dataset,
    mechanism: Mechanism,
    learning: Learning[Trainer] | None,
) -> Finding:
    section, members = options.task.aggregation, _members(options)
    size = sum(prod(shape) for _, shape in named)
    told, single = f"{size} parameters", 0 if mechanism.gradient is None else max(_CHUNK_BYTES, 16 * size)
    if learning is not None and is_exact(options.task):
        told = f"sums of up to {learning.offered} words"
        single = _WORD_BYTES * learning.offered + _CELL_BYTES * dataset.train_x.numel()
        size = max(learning.offered, len(learning.trainer.vector()))
    tensors = (dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y)
    rows = sum(part.numel() * part.element_size() for part in tensors)
    waiting = members * (_PIECES_BYTES + (4 * size if section.shares == "float" else 0))
    model = _COPIES * _fixed_bytes(learning) + _encoder_bytes(options.task)
    needed, free = 2 * rows + 4 * _VECTORS * size + single + waiting + model + _TORCH_BYTES, free_bytes()
    frozen = f"{_gib(model)} of models that stay as they are, " if model > _WORTH_SAYING else ""
    text = f"about {_gib(needed)} ({_gib(rows)} of rows, {told}, {frozen}{members} peers)"
    if free is None:
        return Finding("ok", "memory", f"{text}; how much is free is not known here")
    if needed > free:
        return Finding("problem", "memory", f"{text}, but {_gib(free)} is free; take fewer rows")
    return Finding("warning" if needed > free / 2 else "ok", "memory", f"{text}; {_gib(free)} is free")


def _fixed_bytes(learning: Learning[Trainer] | None) -> int:
    """Returns how large the tensors of the model are that are not trained."""
    return 0 if learning is None else learning.trainer.fixed_bytes


def _encoder_bytes(task: Task) -> int:
    """Returns how large the sentence encoder is that the task's columns of text name; 0 if none does."""
    schema = task.data.schema
    if not isinstance(schema, TableSchema) or all(column.encoder == HASHED for column in schema.texts):
        return 0
    return find_encoder(task.data.encoder).size


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


# -- port, keys, peers -------------------------------------------------------------------------------------


def _place(options: NodeOptions, met: bool) -> tuple[str | None, Finding | None]:
    """Returns the address where the node would listen, and whether it can."""
    if options.listen is not None:
        refused = _refused(options.listen)
        told = Finding("problem", "port", refused) if refused else None
        return options.listen, told or Finding("ok", "port", f"{options.listen} can be listened on")
    if not met or not options.peers:
        return None, None
    free = next((peer.endpoint for peer in options.peers if _refused(peer.endpoint) is None), None)
    if free is None:
        text = (
            "no entry of --peers can be listened on here: any free port is taken, unless --listen names one"
        )
        return None, Finding("warning", "port", text)
    return free, Finding("ok", "port", f"{free} of --peers can be listened on")


def _refused(endpoint: str) -> str | None:
    """Returns why the node cannot listen on `endpoint`; None if it can."""
    try:
        listen(endpoint).close()
    except UserError as error:
        return str(error)
    return None


def _keys(options: NodeOptions) -> Iterator[Finding]:
    if (path := key_path(options)) is not None:
        yield _key(path)
    if options.allow is not None:
        yield _allow(options, options.allow)


def _key(path: Path) -> Finding:
    try:
        key = read_key(path)
    except UserError as error:
        return Finding("problem", "key", str(error))
    if key is not None:
        return Finding("ok", "key", f"{key.public.hex()} in {path}, readable by its owner alone")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not os.access(folder, os.W_OK):
        return Finding("problem", "key", f"{path} is not there and {folder} cannot be written; name another")
    return Finding("ok", "key", f"{path} is made at the first start; python -m node.key {path} makes it now")


def _allow(options: NodeOptions, path: Path) -> Finding:
    try:
        keys = read_allow_list(path)
    except UserError as error:
        return Finding("problem", "allow-list", str(error))
    least = options.task.aggregation.min_participants
    if len(keys) + 1 < least:
        text = f"{path} names {counted(len(keys), 'key')}; a round needs {least} peers, this one among them"
        return Finding("problem", "allow-list", f"{text}: add the others' keys")
    return Finding("ok", "allow-list", f"{path} names {counted(len(keys), 'key')}")


def _peers(options: NodeOptions, here: str | None) -> Iterator[Finding]:
    """Checks the number of peers and the answer of each; a tracker counts as a peer that only answers."""
    others = sorted({peer.endpoint for peer in options.peers} - {here})
    try:
        check_members(options, here or DEFAULT)
    except UserError as error:
        yield Finding("problem", "peers", str(error))
    try:
        pins = _pins(options)
    except UserError as error:
        yield Finding("problem", "tracker", str(error))
        return
    tls = make_dialling(options.tls, lambda endpoint: frozenset(pins.get(endpoint, ())))
    asked = [options.tracker] if options.tracker else others
    for endpoint, found in zip(asked, meet_all(asked, tls), strict=True):
        yield _answer(endpoint, found, pins.get(endpoint), options)


def _pins(options: NodeOptions) -> dict[str, tuple[Key]]:
    """Returns the expected key by endpoint; a tracker's is the pinned one or the one kept in --out."""
    pins = {peer.endpoint: (peer.key,) for peer in options.peers if peer.key is not None}
    if options.tracker is not None:
        key = options.tracker_key
        if key is None and options.out is not None:
            key = KnownTracker(None, options.out / TRACKER).key_at(options.tracker)
        pins |= {} if key is None else {options.tracker: (key,)}
    return pins


def _answer(
    endpoint: str, found: Meeting | str | WrongPeer, pin: tuple[Key] | None, options: NodeOptions
) -> Finding:
    said = found.key if isinstance(found, Meeting) else None
    if pin is not None and said is not None and not pin[0].hex().startswith(said):  # TLS would have told it
        found = WrongPeer(f"{OTHER_KEY}{said[:16]}..., not {pin[0].hex()[:16]}...")
    if isinstance(found, WrongPeer):
        named = "--peers" if options.tracker is None else "the KEY of --tracker"
        text = f"{found}; correct {named}, or find out who listens there"
        return Finding("problem", f"peer {endpoint}", text)
    if isinstance(found, str):
        return Finding("warning", f"peer {endpoint}", found)
    task = options.task.task.name
    if found.task is not None and found.task != task:
        return Finding(
            "problem",
            f"peer {endpoint}",
            f"runs the task {shown(found.task)}; take {task!r} there, or that one here",
        )
    if found.ahead_s is not None and abs(found.ahead_s) > _CLOCK_S:
        text = f"{skew_words(found.ahead_s, 'this one')}; set both by a time server"
        return Finding("warning", f"peer {endpoint}", text)
    clock = "" if found.ahead_s is None else ", its clock agrees to within a minute"
    how = " under TLS" if covers(options.tls, endpoint) else ""
    return Finding("ok", f"peer {endpoint}", f"answers{how}{clock}")
