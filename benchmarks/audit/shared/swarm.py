"""The residual test on real nodes: each has its sockets, links, folder and key, and they meet on loopback.

Honest nodes run as `python -m node` assembles them. Colluders are nodes, too. Their contribution, which is
only in this file, has seeded words and keeps what they know: the base before and after each step, and their
own words. No node can be told to do so.

    base, base'  ──▶  the sum that the swarm's optimiser took  ──┐
    the colluders' words ───────────────────────────────────────┼──▶  what is left ──▶ the test
    the honest members' rows ──▶ float64 sum of clipped gradients ┘

The bases show the sum: with train.momentum = 0 the optimiser's state is the sum, divided by the expected
batch. So the test covers sampling, clipping, noise, rounding, masks, decoding and the step, by what really
went over the wires.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from benchmarks.audit.case import DELTA, EPSILON
from benchmarks.audit.shared.faults import Fault, TensorWise, faulty_rule, ring_sum
from benchmarks.audit.shared.reference import Reference
from benchmarks.audit.shared.sums import loud_rows
from mechanisms.audits.residuals import Residuals
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.shared_noise import SharedNoise
from mechanisms.noise.randomness import SeededWords, SystemWords, Words
from mechanisms.updates.distributed import DistributedDP
from node.app.run import Agreed, Prepared, prepare, run_as
from node.app.signals import until_over
from node.data.dataset import Dataset, load_dataset
from node.data.in_memory import rows_of
from node.data.rows import Rows
from node.jobs.job import Contributed
from node.jobs.steps import StepTrainer
from node.net.incoming.listening import DEFAULT, endpoint_of, listen
from node.options import parse_arguments
from node.runtime.contributions.contribution import Contribution, Following, Training
from node.runtime.contributions.jobs import JobSums
from node.runtime.engine import Engine
from node.runtime.record.events import NodeEvent
from node.storage.state import State
from node.storage.vector_files import Floats
from node.system.errors import UserError
from node.task.load import load_task
from node.task.sections import StepPlan, Task
from node.training.build import build_model
from node.training.trainer import write_vector
from protocol.actions import Completed, Healed, Spend, Vote
from protocol.vectors.pieces import Vector
from protocol.wire.messages import Base

_LOUD_BEYOND = 10.0
"""A loud row has a feature beyond this. Those of the digits are from 0 to 1."""


@dataclass(frozen=True)
class Crowd:
    """A swarm that learns the digits, with all rows in each step. All but `honest` members collude."""

    members: int
    honest: int
    steps: int
    sizes: tuple[int, ...] = (64, 64, 10)
    loud: int = 0
    """How many loud rows each member has. If any, the test looks towards what these should add."""

    def settings(self, rows: int) -> tuple[str, ...]:
        """Return the task's settings. `rows`: of all members together."""
        return (
            "privacy.mechanism=distributed-dp-sgd",
            f"privacy.epsilon={EPSILON}",
            f"privacy.delta={DELTA}",
            f"privacy.honest={self.honest - 1}",
            "privacy.sampling_probability=1.0",
            f"train.expected_batch={rows}.0",
            f"train.expected_rows={rows}",
            f"train.steps={self.steps}",
            f"train.report_every={self.steps}",
            "train.momentum=0.0",
            f"aggregation.min_participants={self.members}",
            f"model.args.sizes={list(self.sizes)}",
        )


@dataclass(frozen=True)
class Step:
    """What a colluder knows of a step: the bases before and after it, and its own words (d,)."""

    before: Floats
    after: Floats
    own: NDArray[np.uint32]


class Colluder:
    """The contribution of a colluder. It keeps what it knows of each step, by the step's session."""

    def __init__(self, inner: JobSums, known: dict[bytes, Step]) -> None:
        """`inner` makes the contribution. `known`: where steps are kept."""
        self._inner = inner
        self._known = known
        self._offered: Vector | None = None
        self._spent: dict[bytes, NDArray[np.uint32]] = {}

    def prepare(self, number: int, stop: threading.Event) -> Training:
        """Do as any member does."""
        return self._inner.prepare(number, stop)

    def offer(self) -> Vector:
        """Offer as any member does; keep a copy."""
        words = self._inner.offer()
        self._offered = words.copy()
        return words

    def spend(self, spend: Spend, at_ms: int) -> None:
        """Spend as any member does; note that the words belong to this session."""
        if self._offered is not None:
            self._spent[spend.sid] = self._offered.astype(np.uint32)
        self._inner.spend(spend, at_ms)

    def vote(self, vote: Vote, at_ms: int) -> None:
        """Vote as any member does."""
        self._inner.vote(vote, at_ms)

    def following(self, before: Base, vector: Floats, proof: Completed | Healed) -> Following:
        """Take the step as any member does; keep it."""
        earlier = vector.copy()
        found = self._inner.following(before, vector, proof)
        if proof.sid in self._spent:
            self._known[proof.sid] = Step(earlier, found.vector.copy(), self._spent[proof.sid])
        return found

    def is_over(self, vector: Floats) -> bool:
        """End as any member does."""
        return self._inner.is_over(vector)


class _Silent:
    def handle(self, event: NodeEvent) -> None:
        pass


class _Node(threading.Thread):
    """A real node in a thread of its own; `error` is what ended it."""

    def __init__(self, prepared: Prepared, listener: object, failed: threading.Event) -> None:
        super().__init__(name="audited node", daemon=True)
        self._prepared, self._listener, self._failed = prepared, listener, failed
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run to the last step, or until another node fails."""
        try:
            run_as(self._prepared, self._listener, _Silent(), self._live)  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            self.error = error
            self._failed.set()

    async def _live(self, engine: Engine, _: Agreed) -> None:
        watch = asyncio.create_task(self._until_one_failed(engine))
        try:
            await until_over(engine)
        finally:
            watch.cancel()

    async def _until_one_failed(self, engine: Engine) -> None:
        while not self._failed.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.2)
        engine.stopping.at_once()


def residuals(crowd: Crowd, fault: Fault, seed: int) -> Residuals:
    """Run the swarm; return what is left of its sums. Raises UserError if a node fails or steps are missing.

    `fault`: planted in the honest members. Without a name they are unchanged nodes.
    """
    task = load_task("digits", [])
    datasets = [load_dataset(task, *_source(crowd, number)) for number in range(crowd.members)]
    rows = sum(len(each.train_y) for each in datasets)
    listeners = [listen(DEFAULT) for _ in range(crowd.members)]
    peers = [endpoint_of(listener, None) for listener in listeners]
    known: list[dict[bytes, Step]] = [{} for _ in range(crowd.members)]
    failed = threading.Event()
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        plain = [
            _prepare_node(crowd, number, peers, Path(folder) / str(number), rows)
            for number in range(crowd.members)
        ]
        nodes = [
            _Node(_member_node(crowd, fault, seed, number, prepared, known[number]), listener, failed)
            for number, (prepared, listener) in enumerate(zip(plain, listeners, strict=True))
        ]
        for node in nodes:
            node.start()
        for node in nodes:
            node.join()
    for node in nodes:
        if node.error is not None:
            raise UserError(f"a node of the audited swarm failed: {node.error}") from node.error
    return _residuals(crowd, plain[0], datasets[: crowd.honest], known[crowd.honest :])


def _source(crowd: Crowd, number: int) -> tuple[Rows | None, tuple[int, int] | None]:
    """Return the data and shard of a member: its shard of the digits, or rows in memory with loud ones."""
    shard = (number, crowd.members)
    if not crowd.loud:
        return None, shard
    usual = load_dataset(load_task("digits", []), None, shard)
    loud_x, loud_y = loud_rows(crowd.loud, usual.train_x.shape[1], 10, np.random.default_rng(number))
    return rows_of((torch.cat([usual.train_x, loud_x]), torch.cat([usual.train_y, loud_y]))), None


def _prepare_node(crowd: Crowd, number: int, peers: Sequence[str], out: Path, rows: int) -> Prepared:
    """Prepare a node as `python -m node` does."""
    mine = [f"--peers={','.join(peers)}", f"--listen={peers[number]}", f"--out={out}"]
    sets = [f"--set={setting}" for setting in crowd.settings(rows)]
    data, shard = _source(crowd, number)
    return prepare(replace(parse_arguments([*mine, *sets]), data=data, shard=shard))


def _member_node(
    crowd: Crowd, fault: Fault, seed: int, number: int, plain: Prepared, known: dict[bytes, Step]
) -> Prepared:
    """Return the node as a colluder, as an honest member with the fault, or unchanged if there is none."""
    if number >= crowd.honest:
        as_all = Fault(fault.name, (1.0,), fault.scale)
        return _plant(plain, as_all, 0, SeededWords(np.random.default_rng([seed, number])), known)
    return _plant(plain, fault, number, SystemWords(), known) if fault.name else plain


def _mechanism_and_plan(prepared: Prepared) -> tuple[DistributedDP, StepPlan]:
    """Return the mechanism and the plan of a node. Raises ValueError if its noise is not shared."""
    plan = prepared.options.task.step_plan
    mechanism = prepared.learning.mechanism
    if plan is None or not isinstance(mechanism, DistributedDP):
        raise ValueError("an audited task has steps with shared noise")
    return mechanism, plan


class _TensorWise(StepTrainer):
    """A node's trainer that clips each tensor's gradient by itself."""

    def __init__(
        self,
        task: Task,
        plan: StepPlan,
        model: nn.Module,
        dataset: Dataset,
        seed: int,
        rule: SharedNoise,
        words: Words,
    ) -> None:
        super().__init__(task, plan, model, dataset, seed, rule, words)
        self._own, self._rows, self._size, self._noise_words = model, dataset, rule.size, words
        row = (dataset.train_x[:1], dataset.train_y[:1])
        objective = Objective(model, dict(model.named_parameters()), functional.cross_entropy, row)
        self._member = TensorWise(objective, rule, len(dataset.train_y))

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Return the words of all rows."""
        write_vector(self._own, base[: self._size], "*")
        words = self._member.words(self._rows.train_x, self._rows.train_y, self._noise_words)
        return Contributed(words)


def _plant(prepared: Prepared, fault: Fault, place: int, words: Words, known: dict[bytes, Step]) -> Prepared:
    """Return a node with the fault of the member at `place`, which draws from `words` and keeps its steps."""
    options, task = prepared.options, prepared.options.task
    mechanism, plan = _mechanism_and_plan(prepared)
    dataset = load_dataset(task, options.data, options.shard)
    rule = faulty_rule(mechanism.shared, fault.shares[place], fault.scale)
    make = _TensorWise if fault.tensor_wise else StepTrainer
    trainer = make(task, plan, build_model(task, dataset), dataset, options.seed, rule, words)

    def contribution(state: State) -> Contribution:
        return Colluder(JobSums(state, trainer, mechanism), known)

    learning = replace(prepared.learning, trainer=trainer, contribution=contribution)
    return replace(prepared, learning=learning)


def _residuals(
    crowd: Crowd, plain: Prepared, datasets: Sequence[Dataset], known: Sequence[Mapping[bytes, Step]]
) -> Residuals:
    """Return what neither the colluders nor the honest members' rows (`datasets`) explain of each step."""
    mechanism, plan = _mechanism_and_plan(plain)
    rule, size = mechanism.shared, mechanism.shared.size
    model = build_model(plain.options.task, datasets[0])
    reference = Reference(model, functional.cross_entropy, rule.gradient.clipping_radius)
    sessions = [sid for sid in known[0] if all(sid in each for each in known)]
    if len(sessions) != crowd.steps:
        raise UserError(f"the audited swarm took {len(sessions)} of {crowd.steps} steps with all members")
    x, y = (
        torch.cat(parts) for parts in zip(*((each.train_x, each.train_y) for each in datasets), strict=True)
    )
    is_loud = x.abs().amax(1) > _LOUD_BEYOND if crowd.loud else torch.ones(len(x), dtype=torch.bool)
    left, toward = [], []
    for sid in sessions:
        step = known[0][sid]
        decoded = step.after[2 * size :].astype(np.float64) * plan.expected_batch
        colluders = rule.decode(ring_sum([each[sid].own for each in known]))
        toward.append(reference(step.before[:size], x[is_loud], y[is_loud]))
        left.append(decoded - colluders - reference(step.before[:size], x, y))
    return Residuals(np.stack(left), np.stack(toward), rule.share_std * math.sqrt(crowd.honest))
