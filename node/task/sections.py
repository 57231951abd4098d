"""The task file: its sections, how they are read, and what a swarm must agree on."""

from __future__ import annotations

import copy
import importlib.resources
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from node.cli.overrides import Override, apply_override, parse_override
from node.errors import ConfigError, one_line, reason, shown
from node.storage.regular_files import check_regular
from node.task.combinations import check_combinations
from node.task.rules import (
    boolean,
    choice,
    key,
    names,
    plain_table,
    read_section,
    real,
    shared_values,
    some_of,
    text,
    unknown_name,
    whole,
)
from node.task.schema import Schema, agreed_schema, schema_rule
from protocol.wire.limits import MAX_MEMBERS

BUILT_IN_SOURCES = ("digits",)
METRICS = ("accuracy", "balanced-accuracy", "auc", "r2", "mae")
_LARGEST_SEED = 2**32 - 1
_MOST_DIFFERENCES = 3
_LISTS = ("shapes", "data.schema.columns")  # their items are compared one by one
_LONGEST_PARAMETERS = 1 << 18  # characters; a few thousand shared tensors
_TASK_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"  # it becomes part of a folder's name
_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_PATH = rf"{_DOTTED}:{_DOTTED}"
_MECHANISM = rf"none|ldp|aldp|dp-sgd|{_PATH}"
_DEVICE = r"cpu|cuda(:\d{1,3})?|mps|auto"
_OR_PATH = "or 'package.module:Name'"

NOTHING_FIXED: Mapping[str, str] = MappingProxyType({})
_seconds = real(above=0, at_most=86_400)
_arguments = plain_table("a table of text, numbers, booleans, lists")


@dataclass(frozen=True)
class TaskSection:
    """What the swarm learns. `seed` fixes initial model, test split and partition."""

    name: str = key(text("letters, digits, '.', '_' and '-', at most 64", _TASK_NAME))
    seed: int = key(whole(0, _LARGEST_SEED), 0)


@dataclass(frozen=True)
class ModelSection:
    """The model: an import path (`class` in TOML) and its keyword arguments.

    `weights` is a file of tensors that it begins with; not the path is agreed on, but what was in it.
    """

    cls: str = key(text("'package.module:Class'", _PATH), name="class")
    args: Mapping[str, Any] = key(_arguments, factory=dict)
    weights: str | None = key(text("a FILE.safetensors", r"(?s).+\.safetensors"), None, shared=False)


@dataclass(frozen=True)
class DataSection:
    """Where the rows come from; `source` is a built-in set, a file or a folder, None needs --data.

    With a `schema` it says what is a row and how it is encoded, without one all values are plain numbers.
    """

    source: str | None = key(text("'digits', or a file or folder of data"), None, shared=False)
    target: str | None = key(text("the name of a column, or of an array of an npz"), None, shared=False)
    features: tuple[str, ...] | None = key(names("a list of different column names"), None, shared=False)
    test_fraction: float = key(real(above=0, below=1), 0.2)
    schema: Schema | None = key(schema_rule(), None)  # noqa: RUF009 - a field, as all calls of `key`


@dataclass(frozen=True)
class TrainSection:
    """Local training. `momentum` is the first moment's decay where `optimizer` is Adam.

    An optimiser by import path is given `learning_rate` and `optimizer_args` alone. `parameters` are trained
    and aggregated, `local` ones trained and kept by the node, all others stay as they began. `schedule` is a
    factor of the learning rate by round. `metrics`, `device` and `threads` are each node's own matter.
    """

    rounds: int = key(whole(1, 1_000_000), 20)
    epochs: int = key(whole(1, 1000), 2)
    batch_size: int = key(whole(1, 1_000_000), 16)
    optimizer: str = key(text(f"'sgd', 'adam', 'adamw' {_OR_PATH}", rf"sgd|adamw?|{_PATH}"), "sgd")
    learning_rate: float = key(real(above=0, at_most=1000), 0.1)
    momentum: float = key(real(at_least=0, below=1), 0.9)
    weight_decay: float = key(real(at_least=0, at_most=1000), 0.0)
    grad_clip: float | None = key(real(above=0), None)
    parameters: str = key(text("a pattern of parameter names, such as '*' or 'layers.0.*'"), "*")
    local: str | None = key(text("a pattern of parameter names, such as 'body.*'"), None)
    optimizer_args: Mapping[str, Any] = key(_arguments, factory=dict)
    schedule: str = key(
        text(f"'constant', 'linear', 'cosine', 'step' {_OR_PATH}", rf"constant|linear|cosine|step|{_PATH}"),
        "constant",
    )
    schedule_args: Mapping[str, Any] = key(_arguments, factory=dict)
    loss: str = key(
        text(
            f"'auto', 'cross-entropy', 'bce', 'mse', 'mae', 'huber' {_OR_PATH}",
            rf"auto|cross-entropy|bce|mse|mae|huber|{_PATH}",
        ),
        "auto",
    )
    loss_args: Mapping[str, Any] = key(_arguments, factory=dict)
    metrics: tuple[str, ...] | None = key(some_of(*METRICS), None, shared=False)
    device: str = key(text("'cpu', 'cuda', 'cuda:N', 'mps' or 'auto'", _DEVICE), "cpu", shared=False)
    threads: int | None = key(whole(1, 1024), None, shared=False)

    @property
    def plain(self) -> bool:
        """Whether all parameters are trained by SGD at one rate, and by the loss that the targets suggest."""
        chosen = (self.optimizer, self.schedule, self.loss, self.parameters)
        return chosen == ("sgd", "constant", "auto", "*") and not (
            self.optimizer_args or self.schedule_args or self.loss_args
        )


@dataclass(frozen=True)
class PrivacySection:
    """Noise. `epsilon` and `delta` are totals over `train.rounds`; with "none" they have no effect."""

    mechanism: str = key(
        text("'none', 'ldp', 'aldp', 'dp-sgd' or 'package.module:Class'", _MECHANISM), "none"
    )
    epsilon: float = key(real(at_least=1e-6, at_most=1e6), 8.0)
    delta: float = key(real(above=0, below=1), 1e-5)
    clipping_radius: float = key(real(at_least=1e-6, at_most=1e6), 1.0)
    window: int = key(whole(1, 1000), 3)
    window_source: str = key(choice("raw", "aggregate", "quantile"), "raw")
    calibration: str = key(choice("exact", "linear-classic"), "exact")


@dataclass(frozen=True)
class AggregationSection:
    """Secure aggregation. The three timeouts are caps; they and the gate are each node's own matter.

    `dropouts`: how many members of a masked sum may fall silent; None: a fifth of them. With `weighting`
    "samples" a peer's update weighs min(rows / `sample_cap`, 1). `loss_gate`: how much the mean loss on this
    node's own training rows may rise above its lowest. `quorum`: the first model is made by so many nodes,
    whoever they are; None: by the peers that are named. `weak`: whether to go on, after a while, without a
    quorum of those who made the last model; `amnesty_s`: when those of them that are silent count as gone for
    good; None: when the owner says so.
    """

    protocol: str = key(choice("masked", "additive"), "masked")
    dropouts: int | None = key(whole(0, 31), None)
    shares: str = key(choice("seed", "ring", "float"), "seed")
    max_share_value: float = key(real(above=0, at_most=1e6), 100.0)
    clip: float = key(real(above=0, at_most=1e4), 4.0)
    min_participants: int = key(
        whole(
            3,
            MAX_MEMBERS,
            because=": with two, each subtracts its own update and has the other's; larger swarms come later",
        ),
        3,
    )
    weighting: str = key(choice("uniform", "samples"), "uniform")
    sample_cap: int | None = key(whole(1, 1_000_000), None)
    public_weights: bool = key(boolean(), False)
    group_timeout_s: float = key(_seconds, 120.0, shared=False)
    shares_timeout_s: float = key(_seconds, 15.0, shared=False)
    sums_timeout_s: float = key(_seconds, 15.0, shared=False)
    loss_gate: float | None = key(real(above=0), None, shared=False)
    quorum: int | None = key(whole(3, MAX_MEMBERS), None, shared=False)
    weak: bool = key(boolean(), True, shared=False)
    amnesty_s: float | None = key(real(at_least=30), None, shared=False)


@dataclass(frozen=True)
class AgreementSection:
    """How peers agree on scales and lists before they learn (python -m node.agree); else without effect.

    `share`: of privacy.epsilon and privacy.delta. `records`: what no peer has more of. `least_records`: a
    category with fewer, in all, is counted as "other". `tries`: how often sums may be released, the share
    covers all of them.
    """

    share: float = key(real(at_least=0.001, at_most=0.999), 0.1)
    records: int = key(whole(1, 50_000_000), 1_000_000)
    least_records: int = key(whole(1, 1_000_000), 10)
    tries: int = key(whole(1, 10), 2)


@dataclass(frozen=True)
class Task:
    """A task file, validated; every value is within the rule of its key."""

    task: TaskSection
    model: ModelSection
    data: DataSection
    train: TrainSection
    privacy: PrivacySection
    aggregation: AggregationSection
    agreement: AgreementSection


def built_in_tasks() -> dict[str, Traversable]:
    """The task files that come with the package, by name."""
    folder = importlib.resources.files("node").joinpath("tasks")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


def load_task(name_or_path: str, overrides: Sequence[str]) -> Task:
    """The task called `name_or_path` (a built-in name or FILE.toml) with `overrides` applied.

    Overrides are `section.key=value`, the value in TOML syntax or a bare word. A relative
    `data.source` is relative to the file that names it, in an override to the working
    directory. Raises ConfigError.
    """
    return load_changed_task(name_or_path, [parse_override(override, "--set") for override in overrides])


def load_changed_task(name_or_path: str, overrides: Sequence[Override]) -> Task:
    """The same with overrides from several places, the later ones stronger; an error names the place."""
    table = _read_table(name_or_path)
    try:
        return read_task(_changed(table, overrides))
    except ConfigError as error:
        place = _to_blame(table, overrides, str(error))
        if place in (None, "--set"):
            raise
        raise ConfigError(f"{place}: {error}") from None


def _changed(table: Mapping[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """A copy of `table` with the overrides set in it."""
    changed = copy.deepcopy(dict(table))
    for override in overrides:
        apply_override(changed, override)
    return changed


def _to_blame(table: Mapping[str, Any], overrides: Sequence[Override], complaint: str) -> str | None:
    """Where the first override stands from which on `complaint` is made; None for the task itself."""
    if complaint.startswith(tuple(override.where for override in overrides)):
        return None  # it names its place already
    blamed: str | None = None
    for count in range(len(overrides), -1, -1):
        try:
            read_task(_changed(table, overrides[:count]))
        except ConfigError as error:
            if str(error) == complaint:
                blamed = overrides[count - 1].where if count else None
                continue
        break
    return blamed


def overridden(table: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """`table` with every `section.key=value` set in it. Raises ConfigError for one that is not so written."""
    for override in overrides:
        apply_override(table, parse_override(override, "--set"))
    return table


def read_task(table: Mapping[str, object]) -> Task:
    """The Task that a parsed TOML `table` describes; raises ConfigError."""
    sections = get_type_hints(Task)
    for given in table:
        if given not in sections:
            raise unknown_name("section", given, given, list(sections))
    read = {name: read_section(cls, name, table.get(name, {})) for name, cls in sections.items()}
    task = Task(**read)
    check_combinations(task, table)
    return task


def _read_table(name_or_path: str) -> dict[str, Any]:
    """The parsed TOML of a built-in task or of a file."""
    built_in = built_in_tasks()
    if name_or_path in built_in:
        return tomllib.loads(built_in[name_or_path].read_text("utf-8"))
    if not name_or_path.endswith(".toml"):
        raise ConfigError(
            f"task {shown(name_or_path)} is not known; allowed: {', '.join(built_in)}, or a FILE.toml"
        )
    table = _read_file(Path(name_or_path))
    _anchor(table, "data", "source", Path(name_or_path).parent)
    _anchor(table, "model", "weights", Path(name_or_path).parent)
    return table


def _read_file(path: Path) -> dict[str, Any]:
    """The parsed TOML of `path`; ConfigError if it can not be read or is not TOML."""
    try:
        check_regular(path)
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"task file {shown(str(path))} can not be read: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"task file {shown(str(path))} is not valid TOML: {reason(error)}") from None


def _anchor(table: dict[str, Any], section: str, name: str, folder: Path) -> None:
    """Make a relative path in a task file relative to that file's folder."""
    values = table.get(section)
    path = values.get(name) if isinstance(values, dict) else None
    if isinstance(path, str) and path and path not in BUILT_IN_SOURCES:
        table[section] = {**table[section], name: str(folder / path)}


def canonical_parameters(
    task: Task,
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    bound: float,
    digests: Mapping[str, str] = NOTHING_FIXED,
) -> str:
    """Canonical JSON of all that must be equal in a swarm: sorted keys, no spaces, ASCII.

    `shapes` are the names and shapes of the shared parameters, in the vector's order; `bound` is what no
    coordinate of an offer exceeds; `digests` are of what a model has beside them that all must have alike.
    What a node may choose for itself (its data, its timeouts) is left out, and so is what was before: how
    scales were agreed on.
    """
    agreed: dict[str, Any] = {entry.name: shared_values(getattr(task, entry.name)) for entry in fields(task)}
    del agreed["agreement"]
    schema = agreed["data"].pop("schema")
    if schema is not None:
        agreed["data"]["schema"] = agreed_schema(schema)
    agreed["model"] |= digests
    agreed["privacy"]["offer_bound"] = bound
    agreed["shapes"] = [[name, list(shape)] for name, shape in shapes]
    return json.dumps(agreed, sort_keys=True, separators=(",", ":"), allow_nan=False)


def describe_difference(mine: str, theirs: str) -> str:
    """Why two nodes do not fit: the first dotted keys that differ, with both values.

    Both are `canonical_parameters`; `theirs` may be anything, the answer is one bounded line.
    """
    try:
        here, there = _flat(json.loads(mine)), _flat(_parsed(theirs))
    except (ValueError, RecursionError):
        return "the other's parameters can not be read"
    differing = [name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)]
    if not differing:
        return "the parameters are the same"
    told = [_both(name, here, there) for name in differing[:_MOST_DIFFERENCES]]
    more = len(differing) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _parsed(theirs: str) -> dict[str, Any]:
    """The JSON object that `theirs` is; ValueError if it is too long or something else."""
    if len(theirs) > _LONGEST_PARAMETERS:
        raise ValueError
    table = json.loads(theirs)
    if not isinstance(table, dict):
        raise ValueError
    return table


def _flat(value: object, name: str = "") -> dict[str, str]:
    """The leaves of tables by dotted key, and of the lists of shapes and columns by number, as JSON."""
    match value:
        case dict() if value:
            items = [(str(part), item) for part, item in value.items()]
        case list() if name in _LISTS:
            items = [(str(number), item) for number, item in enumerate(value)]
        case _:
            return {name: json.dumps(value, sort_keys=True)}
    leaves: dict[str, str] = {}
    for part, item in items:
        leaves |= _flat(item, f"{name}.{part}" if name else part)
    return leaves


def _both(name: str, here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """`name` with its value here and there, each bounded."""
    values = (_clipped(side.get(name, "absent")) for side in (here, there))
    return f"{_clipped(name)} is {next(values)} here and {next(values)} there"


def _clipped(text: str) -> str:
    """`text` on one line, at most 48 characters."""
    line = one_line(text)
    return line if len(line) <= 48 else line[:45] + "..."
