"""The round history: a line for each round that counts, the models, and the summary of the run.

    a round ends ──▶ state: its number and its ending, one step ──▶ base judged and evaluated ──▶ its line

The models are written beside the next round, as the state holds them, too; layers that stay with their owner
are not in the state, so their models are written with the line. If the process is killed or told to end
between the step and the line, `catch_up` writes the line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from node.net.traffic import Counts
from node.runtime.contributions.contribution import Training
from node.runtime.contributions.learning import Learning
from node.runtime.contributions.loss_gate import NodeLossGate, Refused
from node.runtime.meter import Meter
from node.runtime.plan import Plan
from node.runtime.privacy.budget import facts, finite, spent_alone, spent_by
from node.runtime.record.artifacts import Folder, total_of
from node.runtime.record.events import Observer, RolledBack, RoundEnded
from node.runtime.record.figures import AGGREGATED, Record, Summary
from node.runtime.record.own_figures import OwnBook
from node.storage.records import SwarmFigure, Traffic
from node.storage.state import State
from node.system.clock import CLOCK, Clock
from node.training.figures.headline import Alone
from node.training.trainer import Evaluation, VectorModel
from protocol.actions import Completed, Failed
from protocol.wire.messages import Base

SAVE_EVERY_S = 5.0
"""Models are written this often at most, and at the end."""


def ending_of(
    outcome: Completed | Failed,
    training: Training,
    aggregate_s: float,
    meter: Meter,
    part_of: int | None,
    alone: int,
) -> Record:
    """Returns how a sum ended and what it has cost so far. `part_of`: the round it is a step of."""
    failed = outcome if isinstance(outcome, Failed) else None
    began = failed is not None and failed.sid is not None
    return Record(
        round=part_of or 0,
        own=outcome.round,
        outcome="fallback" if failed else AGGREGATED,
        reason=str(failed.reason) if failed else None,
        participants=0 if isinstance(outcome, Failed) else len(outcome.contributors),
        bytes_sent=meter.sent.total(),
        bytes_received=meter.received.total(),
        train_s=training.seconds,
        aggregate_s=aggregate_s,
        train_loss=training.loss,
        missing=tuple(key.hex()[:16] for key in failed.missing) if failed else (),
        clipped=meter.clipped,
        phases=meter.phases(training.seconds),
        alone=alone,
        steps=int(part_of is not None and failed is None),
        steps_failed=int(part_of is not None and began),
    )


class RoundHistory:
    """Writes the history into a node's folder and reports each line to the observer."""

    def __init__(
        self,
        plan: Plan,
        state: State,
        learning: Learning[VectorModel],
        loss_gate: NodeLossGate,
        folder: Folder,
        observer: Observer,
        clock: Clock = CLOCK,
        own: OwnBook | None = None,
    ) -> None:
        self._own = own or OwnBook()
        self._now = clock.monotonic
        self._plan = plan
        self._state = state
        self._learning = learning
        self._trainer = learning.trainer
        self._mechanism = learning.mechanism
        self._job = learning.job
        self._loss_gate = loss_gate
        self._folder = folder
        self._observer = observer
        self._refused: Refused | None = None
        self._evaluation: tuple[bytes, Evaluation] | None = None
        self._began = self._now()
        self._ended: float | None = None
        """When the node left; later seconds do not count as the run's."""
        self._earlier = Traffic(0.0)
        self._written = self._written_own = 0
        """The last round with a line, and the last of this node's own rounds with one."""
        self._unsaved = asyncio.Event()
        """Set when a round has ended whose models are not written yet."""
        self._tally: Record | None = None
        """The last ending; `tallied` adds to it the endings of further steps of its round."""

    async def begin(self) -> None:
        """Continues the existing history; first writes the line that a kill may have prevented."""
        history = await asyncio.to_thread(self._folder.history)
        self._written = max((line.round for line in history), default=0)
        # Lines of earlier versions do not count this node's own rounds.
        self._written_own = max((line.own for line in history), default=0) or self._written
        lacking = await self.catch_up()
        self._tally = self._ending
        self._earlier = total_of(history if lacking is None else [*history, lacking])

    def new_round(self) -> None:
        """Starts a round: a refusal of the loss gate belonged to the previous one."""
        self._refused = None

    def check_base(self) -> None:
        """Lets the loss gate judge the base, unless it has done so; reports a refusal to the observer."""
        refused = self._loss_gate.check_base()
        if refused is not None:
            self._refused = refused
            self._observer.handle(RolledBack(refused.text))

    async def catch_up(self) -> Record | None:
        """Writes the line of the last round that counts, and returns it, if it has none yet."""
        ending = self._ending
        return await self.write(ending) if ending is not None and self._is_due(ending) else None

    @property
    def _ending(self) -> Record | None:
        """How the last round ended, as the state has it."""
        return None if self._state.ending is None else Record.from_ending(self._state.ending)

    def _is_due(self, ending: Record) -> bool:
        """Whether a round of its own has ended, or, where each sum is a step, all steps of a round."""
        if self._plan.report_every is None:
            return ending.own > self._written_own
        return self._round > self._written

    @property
    def _round(self) -> int:
        """The last round that ended with the base; a job's end also ends a round of fewer sums."""
        base, vector = self._state.base_and_vector
        job = self._learning.job
        return self._plan.round(base, is_over=job is not None and job.is_over(vector))

    def tallied(self, ending: Record) -> Record:
        """Returns the ending of the round so far, if `ending` is that of one of its steps; else `ending`."""
        is_more = self._tally is not None and self._tally.round == ending.round > 0
        self._tally = ending.after(self._tally) if is_more and self._tally is not None else ending
        return self._tally

    async def write(self, ending: Record) -> Record:
        """Writes a round's line, then reports and returns the round; `keep_models` writes the models."""
        record = await asyncio.to_thread(self._write, ending)
        if not self._folder.keeps_own:
            self._unsaved.set()
        plan = self._plan
        self._observer.handle(RoundEnded(record, plan.sums if plan.cohort else plan.rounds))
        return record

    def _write(self, ending: Record) -> Record:
        """Evaluates and writes in one visit to a thread: a visit costs about as much as a metric."""
        self.check_base()
        ledger, base, evaluation = self._state.ledger, *self._evaluate()
        spent = spent_by(self._mechanism, ledger)
        number = base.generation + (ending.alone > 0) if self._plan.cohort else None
        figure = self._figure
        record = replace(
            ending,
            round=self._round + (ending.alone > 0),
            loss=evaluation.loss,
            accuracy=evaluation.accuracy,
            epsilon=finite(spent.epsilon) if spent else None,
            delta=spent.delta if spent else None,
            base_digest=base.digest.hex(),
            accuracy_of=self._plan.accuracy_of,
            metrics=evaluation.metrics,
            **vars(evaluation.headline),
            flaws=evaluation.flaws,
            rolled_back=self._refused.losses if self._refused else None,
            epsilon_alone=spent_alone(self._mechanism, ledger),
            sum_number=number,
            purpose=None if number is None else self._purpose(number, figure),
            swarm=figure or ending.swarm,
            names={digits: name for digits in ending.missing if (name := self._plan.nicknames.of(digits))},
        )
        self._written, self._written_own = record.round, record.own  # one that fails half-way is not retried
        self._folder.append(record)
        if self._folder.keeps_own:
            self._save_models()
        return record

    @property
    def _figure(self) -> SwarmFigure | None:
        """What the base itself tells of all members' rows: the last one of a job may."""
        base, vector = self._state.base_and_vector
        return self._learning.figure(vector, base.generation)

    def _purpose(self, number: int, figure: SwarmFigure | None) -> str:
        """Returns what sum `number` of a job was for: a figure comes in its last sum, however early."""
        return self._plan.purpose(max(0, number - 1) if figure is None else self._plan.sums - 1)

    def _evaluate(self) -> tuple[Base, Evaluation]:
        """Returns the base, and its metrics and loss; computes them once per base."""
        base, vector = self._state.base_and_vector
        if self._evaluation is None or self._evaluation[0] != base.digest:
            self._evaluation = base.digest, self._trainer.evaluate(vector)
            self._own.measured(self._evaluation[1].classes)
        return base, self._evaluation[1]

    async def keep_models(self) -> None:
        """Writes the models after rounds, beside the next one, until it is cancelled."""
        while True:
            await self._unsaved.wait()
            self._unsaved.clear()
            writing = asyncio.ensure_future(asyncio.to_thread(self._save_models))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await writing  # no two threads write one file
                raise
            await asyncio.sleep(SAVE_EVERY_S)

    async def end(self) -> None:
        """Writes the line of a round that ended when nobody waited for it, and the models."""
        self._ended = self._now()
        await self.catch_up()
        await asyncio.to_thread(self._save_models)

    def _save_models(self) -> None:
        """Writes the agreed base and the working model as they are now."""
        base, agreed, working = self._state.models
        privacy = facts(self._mechanism, self._state.ledger)
        finished = self._job.is_over(agreed) if self._plan.cohort and self._job is not None else None
        self._folder.models(self._trainer.tensors, base, (agreed, working), privacy, finished)

    async def summarise(
        self,
        counts: Counts,
        sums: Mapping[str, object],
        finished: bool,
        alone: Alone | None = None,
        gone: tuple[str, ...] = (),
        left_behind: bool = False,
    ) -> Summary:
        """Returns the summary of the whole run, over restarts, and writes it to summary.json.

        `sums` states what the last group's sums withstand. `finished`: whether the run is over. `alone`: how
        good a model of this node's rows alone is, unless that is secret. `gone`: who was missing when it
        stopped for want of a member. `left_behind`: others have begun another job meanwhile.
        """
        _, evaluation = await asyncio.to_thread(self._evaluate)
        made = await asyncio.to_thread(self._trainer.made, self._state.base_vector)
        summary = run_summary(
            history=self._folder.history(),
            figure=self._figure,
            rounds=self._round,
            earlier=self._earlier,
            seconds=(self._now() if self._ended is None else self._ended) - self._began,
            counts=counts,
            evaluation=evaluation,
            privacy=facts(self._mechanism, self._state.ledger),
            plan=self._plan,
            state=self._state,
            sums=sums,
            finished=finished,
            alone=alone,
            gone=gone,
            left_behind=left_behind,
            made=made,
        )
        self._folder.summary(summary)
        return summary


def run_summary(
    history: Sequence[Record],
    figure: SwarmFigure | None,
    rounds: int,
    earlier: Traffic,
    seconds: float,
    counts: Counts,
    evaluation: Evaluation,
    privacy: Mapping[str, object] | None,
    plan: Plan,
    state: State,
    sums: Mapping[str, object],
    finished: bool,
    alone: Alone | None = None,
    gone: tuple[str, ...] = (),
    left_behind: bool = False,
    made: str = "",
) -> Summary:
    """Returns the summary of the whole run.

    `figure`: of all members' rows, if the base tells it. `rounds`: the last one's number. `earlier` is the
    cost of earlier starts, `privacy` the ledger; `sums` states what the last group's sums withstand.
    """
    return Summary(
        rounds=rounds,
        aggregated=sum(line.outcome == AGGREGATED for line in history),
        fallbacks=sum(line.outcome == "fallback" for line in history),
        accuracy=evaluation.accuracy,
        epsilon=_number(privacy, "epsilon_spent"),
        delta=_number(privacy, "delta"),
        base_digest=state.base.digest.hex(),
        bytes_sent=earlier.bytes_sent + counts.sent.total(),
        bytes_received=earlier.bytes_received + counts.received.total(),
        seconds=earlier.s + seconds,
        accuracy_of=plan.accuracy_of,
        task=plan.task.task.name,
        key=state.owner.key.hex(),
        finished=finished,
        offers=state.offers,
        dropped=dict(counts.dropped),
        privacy=privacy,
        sums=sums,
        metrics=evaluation.metrics,
        **vars(evaluation.headline),
        flaws=evaluation.flaws,
        epsilon_alone=_number(privacy, "epsilon_alone"),
        swarm=figure or next((line.swarm for line in reversed(history) if line.swarm is not None), None),
        generation=state.base.generation,
        alone=alone,
        gone=gone,
        left_behind=left_behind,
        made=made,
    )


def _number(privacy: Mapping[str, object] | None, name: str) -> float | None:
    value = privacy.get(name) if privacy else None
    return value if isinstance(value, float) else None
