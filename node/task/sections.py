"""The sections of a task file as values: the rule and the default of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from node.task.data_schema import LONGEST_NAME, Schema, TableSchema, schema_rule
from node.task.dialect import Cells, cells_rule
from node.task.rules import boolean, choice, key, names, plain_table, real, some_of, text, unique_texts, whole
from node.task.statistics import StatisticsSection
from protocol.vectors.ring import RINGS, WIDE
from protocol.wire.limits import MAX_MEMBERS

BUILT_IN_SOURCES = ("digits",)
PACKAGE = "package:"
"""What stands before the name of an installed package that holds a sentence encoder."""
METRICS = ("accuracy", "balanced-accuracy", "auc", "r2", "mae", "deviance")
COUNTS = "poisson"
"""The loss of counts: what the model answers is the logarithm of a count's mean."""
EVERY = 5
"""The rounds between two metrics of all members' rows, unless a task says otherwise."""
MOST_CONFUSED = 32
"""The most classes of a confusion matrix that members add up."""
METRIC_SHARE = 0.2
"""The share of epsilon that counts may cost: the noise of training grows by about 2 % for it."""
COUNTED_WITH_NOISE = ("dp-sgd", "distributed-dp-sgd")
"""The mechanisms with which members may count rows: the unit of privacy is a row."""
BLANK_PERSON = ("refuse", "own")
ROWS_PER_PERSON = 8
"""The most training rows of a person that are used, unless a task says otherwise."""
_COVER_ALL_ROWS = ("none", "ldp", "aldp")
_MOST_ADDED = 100  # classes, in one agreement
_LARGEST_SEED = 2**32 - 1
_TASK_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"  # it becomes part of a folder's name
_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_PATH = rf"{_DOTTED}:{_DOTTED}"
_MECHANISM = rf"none|ldp|aldp|dp-sgd|distributed-dp-sgd|{_PATH}"
_DEVICE = r"cpu|cuda(:\d{1,3})?|mps|auto"
_OR_PATH = "or 'package.module:Name'"
MODEL_CLASS = "'package.module:Class'"

ADDITIVE = "node.models:Additive"
CELL_SUMS = 2
"""The sums with noise that find the cells of an additive model's columns of numbers, before its steps."""
CELL_SHARE = 0.1
"""The share of epsilon that these sums would cost by themselves."""
LEAST_RATE = 64_000
"""Half a Mbit/s, in bytes per second."""
_seconds = real(above=0, at_most=86_400)
_arguments = plain_table("a table of text, numbers, booleans, lists")


@dataclass(frozen=True)
class TaskSection:
    """The task's name and seed. `seed` determines the initial model, the test split and the partition."""

    name: str = key(text("letters, digits, '.', '_' and '-', at most 64", _TASK_NAME))
    seed: int = key(whole(0, _LARGEST_SEED), 0)


@dataclass(frozen=True)
class ModelSection:
    """The model: an import path (`class` in TOML) and its keyword arguments.

    `weights` is a file of initial tensors; the peers agree on its content, not on its path. `body` names a
    part that is not trained and comes first: a node computes its outputs once. Each node may choose its own.
    In place of a class, `learner` is the import path of what makes a learner of another framework
    (node.learners.learner); peers agree on the learner's name and numbers, not on its path.
    """

    cls: str = key(text(MODEL_CLASS, rf"|{_PATH}"), "", name="class")
    args: Mapping[str, Any] = key(_arguments, factory=dict)
    weights: str | None = key(text("a FILE.safetensors", r"(?s).+\.safetensors"), None, shared=False)
    body: str | None = key(text("the name of a part of the model"), None, shared=False)
    learner: str | None = key(text("'package.module:function'", _PATH), None, shared=False)


NO_MODEL = ModelSection("")
"""Of a task for statistics alone."""


@dataclass(frozen=True)
class DataSection:
    """The source of the rows: a built-in set, a file or a folder; without a `source`, --data is required.

    A `schema` says what a row is and how it is encoded; without one all values are plain numbers. `person`
    names the column that says whose a row is: it stays on the node, is no feature, and is read as text. With
    it a person is on one side of the split, and is the unit of privacy. Each node chooses whether a row
    without a name is refused, or a person of its own (`blank_person`), how its own file is written where
    that is not as the schema's dialect says (`cells`), and where it has the sentence encoder that a column of
    text names by its digest (`encoder`).
    """

    source: str | None = key(text("'digits', or a file or folder of data"), None, shared=False)
    target: str | None = key(text("the name of a column, or of an array of an npz"), None, shared=False)
    features: tuple[str, ...] | None = key(names("a list of different column names"), None, shared=False)
    test_fraction: float = key(real(above=0, below=1), 0.2)
    schema: Schema | None = key(schema_rule(), None)  # noqa: RUF009 - a field, as all calls of `key`
    person: str | None = key(text("the name of a column, or of an array of an npz"), None)
    blank_person: str = key(choice(*BLANK_PERSON), "refuse", shared=False)
    cells: Cells | None = key(cells_rule(), None, shared=False)  # noqa: RUF009 - as above
    encoder: str | None = key(text("a folder, or 'package:NAME'"), None, shared=False)

    @property
    def own_schema(self) -> Schema | None:
        """The schema by which this node reads its own file; what peers agree on is `schema`."""
        if not isinstance(self.schema, TableSchema):
            return self.schema
        schema = replace(self.schema, encoder_at=self.encoder)
        return schema if self.cells is None else schema.of_file(self.cells)


@dataclass(frozen=True)
class TrainSection:
    """Local training. For Adam, `momentum` is the decay of the first moment.

    An optimiser by import path receives only `learning_rate` and `optimizer_args`. The node trains and shares
    `parameters`, trains `local` ones without sharing them, and keeps all others at their initial values.
    A round has `epochs`, or `seconds` of each node's own clock, whichever of the two is set.
    `schedule` multiplies the learning rate by a factor per round. Where members share noise, the run has
    `steps`, and a round is `report_every` of them; a step has `expected_batch` of the `expected_rows` of all
    members, in the mean (node.task.shared_noise_keys). Each node chooses its own `metrics`,
    `device` and `threads`.
    """

    rounds: int = key(whole(1, 1_000_000), 20)
    epochs: int = key(whole(1, 1000), 2)
    seconds: float | None = key(_seconds, None)
    batch_size: int = key(whole(1, 1_000_000), 16)
    optimizer: str = key(text(f"'sgd', 'adam', 'adamw' {_OR_PATH}", rf"sgd|adamw?|{_PATH}"), "sgd")
    learning_rate: float = key(real(above=0, at_most=1000), 0.1)
    momentum: float = key(real(at_least=0, below=1), 0.9)
    weight_decay: float = key(real(at_least=0, at_most=1000), 0.0)
    grad_clip: float | None = key(real(above=0), None)
    proximal: float = key(real(at_least=0, at_most=1000), 0.0)
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
            f"'auto', 'cross-entropy', 'balanced-softmax', 'bce', 'mse', 'mae', 'huber', "
            f"'poisson' {_OR_PATH}",
            rf"auto|cross-entropy|balanced-softmax|bce|mse|mae|huber|poisson|{_PATH}",
        ),
        "auto",
    )
    loss_args: Mapping[str, Any] = key(_arguments, factory=dict)
    metrics: tuple[str, ...] | None = key(some_of(*METRICS), None, shared=False)
    steps: int | None = key(whole(1, 1_000_000), None)
    report_every: int | None = key(whole(1, 1_000_000), None)
    expected_batch: float | None = key(real(at_least=1, at_most=1e9), None)
    expected_rows: int | None = key(whole(1, 1_000_000_000), None)
    device: str = key(text("'cpu', 'cuda', 'cuda:N', 'mps' or 'auto'", _DEVICE), "cpu", shared=False)
    threads: int | None = key(whole(1, 1024), None, shared=False)

    @property
    def counts(self) -> bool:
        """Whether the targets are counts, and what the model answers is the logarithm of their mean."""
        return self.loss == COUNTS

    @property
    def plain(self) -> bool:
        """Whether SGD trains all parameters at one rate, with the loss that the targets imply."""
        chosen = (self.optimizer, self.schedule, self.loss, self.parameters)
        return chosen == ("sgd", "constant", "auto", "*") and not (
            self.optimizer_args or self.schedule_args or self.loss_args
        )


@dataclass(frozen=True)
class PrivacySection:
    """Privacy. `epsilon` and `delta` are totals over `train.rounds`; with "none" they have no effect.

    `window_source`: what the clipping radius of `aldp` follows. "raw", the norms of a node's own updates, is
    a release that no epsilon covers: `public_radius` declares the radius public. Where members share noise,
    `honest` of a node's others are taken to be honest, and a step has each row with `sampling_probability`.
    `metric_share`: the share of epsilon that counts for `aggregation.swarm_metric` cost. `rows_per_person`:
    the most training rows of a person that are used, where data.person makes a person the unit; None: 8.
    """

    mechanism: str = key(
        text("'none', 'ldp', 'aldp', 'dp-sgd', 'distributed-dp-sgd' or 'package.module:Class'", _MECHANISM),
        "none",
    )
    epsilon: float = key(real(at_least=1e-6, at_most=1e6), 8.0)
    delta: float = key(real(above=0, below=1), 1e-5)
    clipping_radius: float = key(real(at_least=1e-6, at_most=1e6), 1.0)
    window: int = key(whole(1, 1000), 3)
    window_source: str | None = key(choice("raw", "aggregate", "quantile"), None)
    public_radius: bool = key(boolean(), False)
    calibration: str = key(choice("exact", "linear-classic"), "exact")
    honest: int | None = key(whole(1, MAX_MEMBERS - 1), None)
    sampling_probability: float | None = key(real(above=0, at_most=1), None)
    metric_share: float = key(real(at_least=0.001, at_most=0.9), METRIC_SHARE)
    rows_per_person: int | None = key(whole(1, 1024), None)

    @property
    def radius_follows(self) -> str:
        """`window_source`; unset, `aldp` follows agreed models, the replay of an older system raw norms.

        Other mechanisms do not read it: theirs is "raw", as it was before `aldp` had another default.
        """
        if self.window_source is not None:
            return self.window_source
        return "aggregate" if self.mechanism == "aldp" and self.calibration == "exact" else "raw"

    @property
    def noises_rows(self) -> bool:
        """Whether the mechanism is one whose epsilon is for a row, or for a person where that is said."""
        return self.mechanism in COUNTED_WITH_NOISE

    @property
    def shows_radius(self) -> bool:
        """Whether the noise level shows the norms of the node's own updates, which no epsilon covers."""
        return self.mechanism == "aldp" and self.radius_follows == "raw"


@dataclass(frozen=True)
class AggregationSection:
    """Secure aggregation. Each node chooses its own three timeouts, which are caps, and its own loss gate.

    `dropouts`: how many members of a masked sum may fall silent; None: a fifth of them. With `weighting`
    "samples" a peer's update has the weight min(rows / `sample_cap`, 1). With a `swarm_metric`, every
    `swarm_metric_every`-th sum has the members' counts on their test rows, too.
    `loss_gate`: how far the mean loss on this node's own training rows may rise above its lowest value.
    `bits`: those of a word of a masked sum; with 16 the coordinates lie on a grid of 65536 steps in all.
    `least_rate`: bytes per second; bulk that has begun to come in time may take twice as long as all bulk of
    its step takes at this rate.
    `liars`: how many electors of a model may vote twice, or deny a vote; None: 0 of up to six, 1 of seven or
    more, a third of 16 or more, with "masked" sums. `quorum`: the number of nodes, of any identity, that make
    the first base; None: the named peers make it.
    `weak`: whether the node continues, after a while, without a quorum of the electors of the last base.
    `amnesty_s`: the time after which silent electors count as gone for good; None: only the owner declares
    them gone. `leave_out_rounds`: for how many rounds this node first leaves out a member that withholds its
    part of sums; 0: never.
    """

    protocol: str = key(choice("masked", "additive"), "masked")
    dropouts: int | None = key(whole(0, 31), None)
    shares: str = key(choice("seed", "ring", "float"), "seed")
    max_share_value: float = key(real(above=0, at_most=1e6), 100.0)
    clip: float = key(real(above=0, at_most=1e4), 4.0)
    bits: int = key(choice(*sorted(RINGS)), WIDE.bits)
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
    swarm_metric: str = key(choice("none", "confusion", "scores", "sums"), "none")
    swarm_metric_every: int = key(whole(1, 1_000_000), EVERY)
    group_timeout_s: float = key(_seconds, 120.0, shared=False)
    shares_timeout_s: float = key(_seconds, 15.0, shared=False)
    sums_timeout_s: float = key(_seconds, 15.0, shared=False)
    loss_gate: float | None = key(real(above=0), None, shared=False)
    least_rate: int = key(whole(1_000, 1_000_000_000), LEAST_RATE)
    liars: int | None = key(whole(0, MAX_MEMBERS - 1), None)
    quorum: int | None = key(whole(3, MAX_MEMBERS), None, shared=False)
    weak: bool = key(boolean(), True, shared=False)
    amnesty_s: float | None = key(real(at_least=30), None, shared=False)
    leave_out_rounds: int = key(whole(0, 1000), 4, shared=False)

    @property
    def unused(self) -> tuple[str, ...]:
        """The keys that have no effect, as nothing is counted."""
        return ("swarm_metric", "swarm_metric_every") if self.swarm_metric == "none" else ()

    @property
    def without_slots(self) -> Self:
        """The same for sums of whole numbers, which have no weight and no counts beside the vectors."""
        return replace(self, weighting="uniform", sample_cap=None, swarm_metric="none", bits=WIDE.bits)


@dataclass(frozen=True)
class AgreementSection:
    """The agreement on scales and lists before learning (python -m node.agree); otherwise without effect.

    `share`: the part of privacy.epsilon and privacy.delta that it may spend. `records`: the most records of
    any peer. `least_records`: a category with fewer records in total counts as "other". `tries`: how often
    sums may be released; the share covers all releases. `leave_out_missing`: whether a column that a peer's
    file lacks is left out of the agreed task. `classes`: classes beyond those of the target that some peer
    has, which its owner declares to all.
    """

    share: float = key(real(at_least=0.001, at_most=0.999), 0.1)
    records: int = key(whole(1, 50_000_000), 1_000_000)
    least_records: int = key(whole(1, 1_000_000), 10)
    tries: int = key(whole(1, 10), 2)
    leave_out_missing: bool = key(boolean(), False)
    classes: tuple[str, ...] = key(unique_texts(0, _MOST_ADDED, LONGEST_NAME), ())


@dataclass(frozen=True)
class StepPlan:
    """Steps with shared noise: the keys of a task that are then set (node.task.shared_noise_keys)."""

    honest: int
    sampling_probability: float
    steps: int
    report_every: int
    expected_batch: float


@dataclass(frozen=True)
class Task:
    """A validated task file; every value obeys the rule of its key."""

    task: TaskSection
    model: ModelSection
    data: DataSection
    train: TrainSection
    privacy: PrivacySection
    aggregation: AggregationSection
    agreement: AgreementSection
    statistics: StatisticsSection

    @property
    def learns(self) -> bool:
        """Whether the task has a model; if not, it is for statistics alone."""
        return self.model != NO_MODEL

    @property
    def rows_per_person(self) -> int | None:
        """The most training rows of a person, where a person is the unit of privacy; None where a row is.

        Mechanisms that noise a node's whole offer cover all persons, however many rows they have.
        """
        if self.data.person is None or self.privacy.mechanism in _COVER_ALL_ROWS:
            return None
        return self.privacy.rows_per_person or ROWS_PER_PERSON

    @property
    def unit(self) -> str:
        """What a step samples and clips, in a word."""
        return "row" if self.rows_per_person is None else "person"

    @property
    def cell_sums(self) -> int:
        """How many of its sums find the cells of an additive model; 0: it has none, or the task has them."""
        args = self.model.args
        numbers = [kind for kind, *_ in args.get("columns", ()) if kind == "number"]
        is_ours = self.model.cls == ADDITIVE and self.privacy.mechanism == "distributed-dp-sgd"
        return CELL_SUMS if is_ours and numbers and not args.get("edges") else 0

    @property
    def counts_with_noise(self) -> bool:
        """Whether members count on their test rows, with noise and a charge for it."""
        return self.aggregation.swarm_metric != "none" and self.privacy.noises_rows

    @property
    def step_plan(self) -> StepPlan | None:
        """What the members of a swarm with shared noise agree on; None if they share none."""
        privacy, train = self.privacy, self.train
        match (
            privacy.honest,
            privacy.sampling_probability,
            train.steps,
            train.report_every,
            train.expected_batch,
        ):
            case int(honest), float(q), int(steps), int(report_every), float(batch):
                return StepPlan(honest, q, steps, report_every, batch)
        return None
