"""Writes a task as a TOML file whose comments mark what came from somebody's data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from textwrap import wrap
from typing import Any

from node.init.guess import LEAST_ROWS
from node.init.look import Look
from node.init.loss_choice import BALANCED, ChosenLoss
from node.init.proposal import TEST_FRACTION, Model, Privacy, SharedTraining, Training, trained_on
from node.system.errors import one_line
from node.system.toml_text import toml
from node.task.data_schema import (
    ArraySchema,
    ClassTarget,
    Column,
    NumberColumn,
    NumberTarget,
    TableSchema,
    Target,
)
from node.task.rules import key_name, toml_name
from node.task.sections import (
    COUNTS,
    EVERY,
    MOST_CONFUSED,
    ROWS_PER_PERSON,
    AgreementSection,
    TrainSection,
)
from node.task.table_models import SAME_MEMBERS

MARK = "# FROM YOUR DATA"
_COMMENT_WIDTH = 100
_REVEALED = {
    BALANCED: "the share of each class, to two digits",
    "huber": "how far off the farthest targets are",
    COUNTS: "that the target counts something",
}
"""What a chosen loss says of the rows that asked for it."""
_MOST_AREAS = 100  # classes: the AUC sorts all rows once for each class


@dataclass(frozen=True)
class Proposal:
    """The content of a task file for `data`; `privacy` is None without privacy.

    `training` is shared where all peers take the same private steps; None: exact sums make the model.
    """

    name: str
    data: Look
    model: Model
    training: Training | SharedTraining | None
    privacy: Privacy | None
    agreement: AgreementSection | None
    """The agreement on scales and lists; None: the file has those of the inspected rows."""
    loss: ChosenLoss | None = None
    """The loss that the inspected rows ask for; None: the plain one."""
    drowned: str = ""
    """Why an agreement would say too little; empty: it would not."""
    opened: str = ""
    """What exact sums open; empty: the model is not made by them."""

    @property
    def unit(self) -> str:
        """The unit of privacy in a word."""
        return "row" if self.data.person is None else "person"

    @property
    def is_to_be_agreed(self) -> bool:
        """Whether the peers should agree on scales and lists before they learn."""
        return self.agreement is not None and not self.drowned


def task_text(proposal: Proposal) -> str:
    """Returns the text of the whole file."""
    parts = (
        _head(proposal),
        _task(proposal),
        _model(proposal),
        _train(proposal),
    )
    rest = (_privacy(proposal), _aggregation(proposal), _agreement(proposal), _data(proposal))
    return "\n".join(line for part in (*parts, *rest) for line in part) + "\n"


def _head(proposal: Proposal) -> Iterator[str]:
    yield "# A task for python -m node, written by python -m node.init. Every peer needs this same file:"
    command = "node.agree" if proposal.is_to_be_agreed else "node --task"
    yield f"#   python -m {command} FILE.toml --data OWN_DATA --peers HOST:PORT,HOST:PORT,HOST:PORT"
    yield "# Any value may be changed, at all peers alike. python -m node.check reports what would fail."
    yield "#"
    yield "# BEFORE YOU SHARE IT: lines with the mark"
    yield f"#   {MARK}"
    yield "# reveal something about the data that it was made from, and no noise covers them. They contain:"
    yield from (f"# - {what}" for what in _told(proposal))
    yield "# Replace what must stay secret by public values (a published code list, ranges from a textbook)."
    yield ""


def _told(proposal: Proposal) -> Iterator[str]:
    schema, ranges = proposal.data.schema, proposal.agreement is not None
    scales, digits = ("ranges", "outward to one digit") if ranges else ("means and spreads", "to two digits")
    match schema:
        case TableSchema():
            yield "which columns there are, and which have missing values"
            yield f"{scales} of numbers and dates, {digits}"
            if schema.dialect is not None:
                yield "how its cells are written, and the words for no value in it"
            yield f"names of categories that {LEAST_ROWS} rows or more have"
        case ArraySchema():
            yield "the shape of a row"
            if schema.kind == "array":
                yield f"{scales} of its numbers, {digits}"
    if isinstance(schema.target, ClassTarget):
        yield "names of classes"
    else:
        yield f"{scales} of the target, {digits}"
    if proposal.loss is not None:
        yield _REVEALED[proposal.loss.name]
    if isinstance(proposal.training, Training) and proposal.training.searched:
        yield "which learning rate suits your rows"
    if not proposal.opened:
        yield "how many rows there are, to one digit"


def _task(proposal: Proposal) -> Iterator[str]:
    yield "[task]"
    yield f"name = {toml(proposal.name)}"
    yield "seed = 0                  # fixes the first model and which rows are held back for validation"
    yield ""


def _model(proposal: Proposal) -> Iterator[str]:
    model = proposal.model
    if proposal.opened:
        told = f"Exact sums over all members make it: {proposal.opened}. Members are {SAME_MEMBERS}."
        yield from wrap(told, _COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")
    yield "[model]"
    yield f"class = {toml(model.cls)}    # {model.why}; any torch.nn.Module as 'package.module:Class'"
    if not model.follows:
        yield f"args = {toml(model.args)}    # {model.size} parameters"
    if model.body is not None:
        yield f"body = {toml(model.body)}    # is not trained; its outputs for one's rows are computed once"
    yield ""


def _train(proposal: Proposal) -> Iterator[str]:
    training, target = proposal.training, proposal.data.schema.target
    yield "[train]"
    match training:
        case Training():
            yield from _passes(training, proposal.loss)
        case SharedTraining():
            yield from _steps(training, proposal.unit)
    known = {key_name(entry) for entry in fields(TrainSection)}
    judging = _judging(target, proposal.loss)
    if (loss := proposal.loss) is not None:
        yield f"# {_comment(loss.why[0].upper() + loss.why[1:])}    {MARK}"
        yield f"loss = {toml(loss.name)}    {MARK}"
        if loss.args:
            yield f"loss_args = {toml(loss.args)}    {MARK}: the shares of the classes"
        del judging["loss"]
    elif proposal.model.follows:
        del judging["loss"]
    elif proposal.agreement is not None:
        judging["loss"] = ("auto", "node.agree replaces it if a class is rare, or numbers have heavy tails")
    for name, (value, why) in judging.items():
        if name in known:  # keys of later versions
            yield f"{name} = {toml(value)}    # {why}"
    yield ""


def _passes(training: Training, loss: ChosenLoss | None) -> Iterator[str]:
    yield f"rounds = {training.rounds}"
    yield f"epochs = {training.epochs}                # over one's own rows, in a round"
    yield f"batch_size = {training.batch_size}"
    rare = loss is not None and loss.name == BALANCED and training.optimizer == "sgd"
    yield f"optimizer = {toml(training.optimizer)}{f'    {MARK}: a class is rare' if rare else ''}"
    found = f"    {MARK}: the best of three on rows held back" if training.searched else ""
    yield f"learning_rate = {toml(training.learning_rate)}{found}"
    yield f"momentum = {toml(training.momentum)}"
    yield f"schedule = {toml(training.schedule)}    # of the learning rate, over the rounds"


def _steps(training: SharedTraining, unit: str) -> Iterator[str]:
    found, peers = training.found, training.peers
    yield f"# All peers take the same steps, on the {unit}s of all. Their number counts as public; if wrong,"
    yield f"# a step is shorter or longer. Here: {peers} peers with as many as you."
    yield f"expected_rows = {training.expected_rows}    {MARK}: {unit}s, to one digit"
    if training.steps is not None:
        yield f"steps = {training.steps}"
        yield f"report_every = {found.report_every}           # steps: a round"
    yield "# What stands here as a comment follows from rows and epsilon (docs/step-defaults.md):"
    if training.steps is None:
        yield f"# steps = {found.steps}, report_every = {found.report_every}: a round is so many of them"
    yield f"# expected_batch = {found.expected_batch}, of all peers together"
    yield f"# learning_rate = {toml(found.learning_rate)}, with momentum 0.9"
    yield f"# privacy.clipping_radius = {toml(found.clipping_radius)}"


def _judging(target: Target, loss: ChosenLoss | None) -> dict[str, tuple[object, str]]:
    """Returns loss and metrics, each with a comment, by the kind of target."""
    if isinstance(target, NumberTarget):
        more = ("deviance",) if loss is not None and loss.name == COUNTS else ()
        where = "on this node's own validation rows; mae in the target's own unit"
        return {"loss": ("auto", "mean squared error"), "metrics": (("r2", "mae", *more), where)}
    named = ("accuracy", "balanced-accuracy", "auc")
    kept = named if len(target.values) <= _MOST_AREAS else named[:2]
    return {
        "loss": ("auto", "cross-entropy"),
        "metrics": (kept, "on this node's own validation rows"),
    }


def _privacy(proposal: Proposal) -> Iterator[str]:
    privacy, training, unit = proposal.privacy, proposal.training, proposal.unit
    yield "[privacy]"
    if privacy is None:
        hidden = "each member's numbers" if proposal.opened else "single updates"
        yield f'mechanism = "none"        # sums hide {hidden}; nothing bounds what the model remembers'
    elif isinstance(training, SharedTraining):
        what = f"all peers together add the noise of a step, for every {unit}"
        yield f'mechanism = "distributed-dp-sgd"    # {what}'
        yield f"epsilon = {toml(privacy.epsilon)}             # for all steps; smaller is more private"
        yield f"delta = {toml(privacy.delta)}"
        others = "of a peer's others: they add noise and tell nobody"
        yield f"honest = {training.honest}                # {others}"
        yield "# With fewer honest peers epsilon is larger: python -m node.check has figures."
        yield f"# A step's noise is {privacy.noise:.2g} times what one {unit} can move it.    {MARK}: {unit}s"
    else:
        what = f'bounds what anybody can tell about any one {unit}; "none" is without'
        yield f'mechanism = "dp-sgd"      # {what}'
        yield f"epsilon = {toml(privacy.epsilon)}             # for all rounds; smaller is more private"
        yield f"delta = {toml(privacy.delta)}"
        yield f"clipping_radius = {toml(privacy.clipping_radius)}"
        rows = _count(trained_on(proposal.data.units))
        yield f"# With {rows} {unit}s a step's noise is {privacy.noise:.2g} times what one"
        yield f"# can move it; a peer with fewer adds more noise, for the same epsilon.    {MARK}: {unit}s"
    if privacy is not None and proposal.data.person is not None:
        yield f"rows_per_person = {ROWS_PER_PERSON}       # at most so many rows of a person are trained on"
    yield ""


def _aggregation(proposal: Proposal) -> Iterator[str]:
    """Lets members measure the model on the rows of all; with privacy only the owner may ask for it."""
    training, target = proposal.training, proposal.data.schema.target
    if proposal.privacy is not None or isinstance(training, SharedTraining):
        return
    kind = "sums"
    if isinstance(target, ClassTarget) and len(target.values) <= MOST_CONFUSED:
        kind = "scores" if len(target.values) == 2 else "confusion"
    yield "[aggregation]"
    which = "model" if training is not None else "last model"
    yield f"swarm_metric = {toml(kind)}    # all peers learn how good the {which} is on the test rows of all,"
    yield '#   from a sum of counts; nobody sees those of one peer. Without it: "none"'
    if training is not None and training.rounds < EVERY:
        yield f"swarm_metric_every = {training.rounds}"
    yield ""


def _agreement(proposal: Proposal) -> Iterator[str]:
    section = proposal.agreement
    if section is not None:
        yield "# How peers agree on means, spreads and categories before they learn: python -m node.agree."
        if proposal.drowned:
            yield "# Not with this budget and so few rows, which its noise drowns: learn with the ranges."
        yield "[agreement]"
        yield f"share = {toml(section.share)}               # of epsilon and delta; the rest is for learning"
        yield f"records = {section.records}         # no peer has more rows"
        yield f"least_records = {section.least_records}       # a category with fewer in all counts as other"
        yield ""


def _count(rows: int) -> str:
    """Returns a number of rows to one digit, as others will read the file."""
    return f"about {float(f'{rows:.1g}'):,.0f}"


def _data(proposal: Proposal) -> Iterator[str]:
    held_back = f"of one's own {proposal.unit}s, held back for validation"
    return data_lines(proposal.data, f"test_fraction = {TEST_FRACTION}       # {held_back}")


def data_lines(found: Look, *first: str) -> Iterator[str]:
    """Yields the section of the inspected data, with these lines first."""
    schema, person = found.schema, found.person
    yield "[data]"
    yield from first
    if person is not None:
        yield "# The column that says whose a row is, at every peer. It stays there, and is not learned from:"
        yield f"person = {toml(person.name)}    {MARK}"
    yield ""
    yield "# What a row is, and how it becomes numbers, alike at every peer (docs/data.md). A file that does"
    yield "# not fit is refused; other columns than these are ignored."
    yield "[data.schema]"
    yield f"kind = {toml(schema.kind)}"
    yield f"target = {toml(plain(schema.target))}    {MARK}"
    if isinstance(schema, TableSchema) and schema.dialect is not None:
        yield f"dialect = {toml(plain(schema.dialect))}    {MARK}: how cells are written"
    yield from _columns(schema) if isinstance(schema, TableSchema) else _array(schema)
    for entry in found.omitted:
        yield f"# left out: {_comment(entry.column)}    {MARK}"


def _columns(schema: TableSchema) -> Iterator[str]:
    yield f"columns = [    {MARK}: all names below, and what is marked"
    for column in schema.columns:
        yield f"  {toml(plain(column))},{_mark(column)}"
    yield "]"


def _mark(column: Column) -> str:
    match column:
        case NumberColumn():
            return f"    {MARK}: {'mean, std' if column.low is None else 'the range'}"
        case _ if column.kind == "category":
            return f"    {MARK}: values"
    return ""


def _array(schema: ArraySchema) -> Iterator[str]:
    yield f"shape = {toml(schema.shape)}    {MARK}"
    mark = "# public constants" if schema.kind == "images" else MARK
    yield f"mean = {toml(schema.mean)}    {mark}"
    yield f"std = {toml(schema.std)}    {mark}"
    if schema.low is not None and schema.high is not None:
        yield f"low = {toml(schema.low)}    {mark}"
        yield f"high = {toml(schema.high)}    {mark}"


def plain(value: Any) -> Any:
    """Returns a schema, column or target as tables and lists: the keys that are set, the name first."""
    if is_dataclass(value):
        given = {toml_name(entry): getattr(value, entry.name) for entry in fields(value)}
        said = {
            name: plain(item)
            for name, item in given.items()
            if item is not None and item is not False and item != ()  # and 0 is said
        }
        return {"name": said.pop("name"), **said} if "name" in said else said
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def _comment(text: str) -> str:
    """Returns `text` on one line, shortened for a comment."""
    line = one_line(text)
    return line if len(line) <= _COMMENT_WIDTH else line[: _COMMENT_WIDTH - 3] + "..."
