r"""The life of a node: train, offer, take the group's mean or go on alone; round after round.

train --> offer --> Completed: base += mean, spent := 0  --> next round
              \---> Failed: one's own update, go on      --> next round
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mechanisms.mechanism import Mechanism
from node.artifacts import Folder, Record, Summary, total_of
from node.counting import Meter
from node.errors import ConfigError, UserError
from node.reporting import Reporter, fatal_text, notice_text
from node.serving import answer
from node.shell import Shell
from node.state import Kept, State
from node.training import Evaluation, Interrupted, Trainer
from node.transport import Transport
from node.vectors import Floats
from protocol.actions import (
    Action,
    Adopted,
    Closed,
    Completed,
    Evidence,
    Failed,
    Fatal,
    Healed,
    Keep,
    Notice,
    Send,
    Serve,
    Spend,
)
from protocol.codec import parameters_hash
from protocol.messages import Base, Group, Sid, Sum
from protocol.session import Session
from protocol.vectors import base_digest

T = TypeVar("T")

HEAVY_BYTES = 256 * 1024
CUT_SHARE = 0.001


@dataclass(frozen=True)
class Plan:
    """What this node was asked for: up to which round, and how it is named."""

    rounds: int
    task: str
    key: str
    accuracy_of: str
    parameters: str
    """The canonical text that all members share."""


@dataclass(frozen=True)
class Training:
    """What is kept of a round's training besides `fresh`."""

    loss: float
    seconds: float


async def _at_once(call: Callable[..., T], *arguments: object) -> T:
    """In place of asyncio.to_thread: for a small vector the way to a thread costs more than the work."""
    return call(*arguments)


class Peer:
    """One node. It owns the session, the state and the trainer; `run` is its whole life."""

    def __init__(
        self,
        plan: Plan,
        session: Session,
        state: State,
        trainer: Trainer,
        mechanism: Mechanism,
        folder: Folder,
        reporter: Reporter,
    ) -> None:
        heavy = 4 * state.dimension > HEAVY_BYTES
        self._aside = asyncio.to_thread if heavy else _at_once
        self._plan = plan
        self._session = session
        self._state = state
        self._trainer = trainer
        self._mechanism = mechanism
        self._folder = folder
        self._report = reporter
        self._shell = Shell(session, self._perform, heavy)
        self.transport = Transport(
            self._shell.receive, self._shell.unreachable, self._shell.reconnected, heavy
        )
        self._outcome: asyncio.Future[Completed | Failed] | None = None
        self._closed = asyncio.Event()
        self._stop = threading.Event()
        self._stopped = asyncio.Event()
        self._meter = Meter(self.transport.counts)
        self._began = time.monotonic()
        self._earlier = total_of(folder.history())
        self._evaluation: tuple[bytes, Evaluation] | None = None

    # -- life --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """All rounds, then the closing; UserError if this node can not go on."""
        async with asyncio.TaskGroup() as tasks:
            timer = tasks.create_task(self._shell.keep_time())
            view = tasks.create_task(self._report.keep_showing(self.status))
            rounds = tasks.create_task(self._rounds())
            await asyncio.wait((rounds, self._shell.broken), return_when=asyncio.FIRST_COMPLETED)
            for task in (timer, view, rounds):
                task.cancel()
        if self._shell.broken.done():
            self._shell.broken.result()

    async def _rounds(self) -> None:
        await self._shell.feed(self._session.open)
        while self._session.round < self._plan.rounds and not self._stop.is_set():
            await self._round()
        if not self._stop.is_set():
            await self._shell.feed(self._session.close)
            await self._first_of(self._closed.wait())
        await self._save_models()

    async def leave(self) -> None:
        """Say goodbye, and let what has begun come to its end; nothing is left half-stored."""
        await self._shell.feed(self._session.leave)
        await self._shell.drain()

    def interrupt(self) -> None:
        """End soon: training between two batches, every wait at once. What is stored stays."""
        self._stop.set()
        self._stopped.set()

    async def _first_of(self, wait: Awaitable[T]) -> T | None:
        """The wait's result; None if this node is interrupted before."""
        waiting = asyncio.ensure_future(wait)
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopped.cancel()

    async def _round(self) -> None:
        self._meter.begin()
        self._report.training(self._session.round + 1)
        with suppress(Interrupted):
            training = await asyncio.to_thread(self._train, self._session.round + 1)
            begun = time.monotonic()
            outcome = await self._aggregate()
            self._meter.enter("idle")
            if outcome is not None:
                await self._end_round(outcome, training, time.monotonic() - begun)

    def _train(self, number: int) -> Training:
        """Train, in a thread, and store what was learned as `fresh`."""
        working = self._state.working
        trained = self._trainer.train(working, number, self._stop)
        fresh = np.subtract(trained.vector, working, out=working)
        if self._state.fresh is not None:
            fresh += self._state.fresh
        self._state.trained(fresh)
        return Training(trained.loss, trained.seconds)

    async def _aggregate(self) -> Completed | Failed | None:
        """Offer `fresh` to a group; how that ended, None if this node is interrupted meanwhile."""
        fresh = self._state.fresh
        if fresh is None:
            raise UserError("there is nothing to offer")
        offer = self._mechanism.offer(fresh)
        self._outcome = asyncio.get_running_loop().create_future()
        rand = os.urandom(32)
        await self._shell.feed(lambda now: self._session.offer(offer, rand, now))
        return await self._first_of(self._outcome)

    async def _end_round(self, outcome: Completed | Failed, training: Training, aggregate_s: float) -> None:
        evaluation = await self._evaluate()
        record = self._record(outcome, training, evaluation, aggregate_s)
        await asyncio.to_thread(self._folder.append, record)
        await self._save_models()
        self._report.round_ended(record, self._plan.rounds)

    async def _evaluate(self) -> Evaluation:
        """The base's accuracy and loss; worked out once for each base."""
        digest, vector = self._state.base.digest, self._state.base_vector
        if self._evaluation is None or self._evaluation[0] != digest:
            self._evaluation = digest, await asyncio.to_thread(self._trainer.evaluate, vector)
        return self._evaluation[1]

    async def _save_models(self) -> None:
        state = self._state
        digest = state.base.digest.hex()
        await asyncio.to_thread(self._folder.models, state.base_vector, state.working, digest)

    # -- actions -----------------------------------------------------------------------------------

    async def _perform(self, action: Action) -> list[Action]:
        """Carry out one action; what follows from it."""
        self._meter.enter(self._session.status.phase)
        match action:
            case Send(to=str() as endpoint):
                self.transport.send(endpoint, action.messages)
            case Spend():
                await asyncio.to_thread(self._spend, action)
            case Keep():
                await self._aside(self._keep, action.sums)
            case Completed() | Healed():
                return await self._take_mean(action)
            case Adopted():
                return await self._take_base(action.base, action.vector, None, action)
            case Failed():
                await asyncio.to_thread(self._state.fell_back, action.round)
                self._settle(action)
            case Serve():
                await self._serve(action)
            case Evidence():
                await asyncio.to_thread(self._state.ban, action.sender, (action.first, action.second))
                self._report.warning(
                    f"banned {action.sender.hex()[:16]}...: two different sums in one session"
                )
            case Notice():
                self._report.notice(notice_text(action, self._plan.parameters))
            case Fatal():
                raise ConfigError(fatal_text(action, self._plan.parameters))
            case Closed():
                self._closed.set()
        return []

    def _spend(self, spend: Spend) -> None:
        self._state.spend(spend.sid, spend.round, spend.clipped, int(self._shell.clock.now() * 1000))
        self._meter.clipped = spend.clipped
        share = spend.clipped / self._state.dimension
        if share > CUT_SHARE:
            self._report.warning(
                f"{spend.clipped} of {self._state.dimension} coordinates were cut to the bound: "
                "raise aggregation.clip, or lower train.learning_rate"
            )

    def _keep(self, sums: Iterable[Sum]) -> None:
        for part in sums:
            self._state.keep_sum(part)

    async def _take_mean(self, action: Completed | Healed) -> list[Action]:
        """A mean on the base that its group had: the new base."""
        before = action.group.readys[0].announce.base
        vector = self._state.vector_of(before)
        if vector is None:
            raise UserError("the base that a certificate builds on is gone")
        new = await self._aside(np.add, vector, action.mean, action.mean)  # in place: no copy more
        base = self._named(before.generation + 1, new, action.group, action.sid)
        kept = Kept(action.group, before, action.certificate)
        return await self._take_base(base, new, kept, action)

    def _named(self, generation: int, vector: Floats, group: Group, sid: Sid) -> Base:
        digest = base_digest(parameters_hash(self._plan.parameters), generation, vector)
        return Base(generation, digest, len(group.readys), sid)

    async def _take_base(
        self, base: Base, vector: Floats, kept: Kept | None, why: Completed | Healed | Adopted
    ) -> list[Action]:
        round = why.round if isinstance(why, Completed) else self._session.round
        await asyncio.to_thread(self._state.adopt, base, vector, round, kept)
        match why:
            case Completed():
                self._settle(why)
            case Healed():
                self._report.caught_up(base, f"proved by a certificate from {why.source.hex()[:8]}")
            case Adopted():
                trusted = ", ".join(key.hex()[:8] for key in why.trusted)
                self._report.caught_up(base, f"on the word of {trusted}")
        return self._session.adopted(base, self._shell.clock.now())

    def _settle(self, outcome: Completed | Failed) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)

    async def _serve(self, serve: Serve) -> None:
        """Send what was asked for, if it is here."""
        message = await asyncio.to_thread(answer, self._state, serve.request)
        if message is not None:
            self.transport.send(serve.to, (message,))

    # -- figures -----------------------------------------------------------------------------------

    def _record(
        self, outcome: Completed | Failed, training: Training, evaluation: Evaluation, aggregate_s: float
    ) -> Record:
        failed = outcome if isinstance(outcome, Failed) else None
        members = 0 if isinstance(outcome, Failed) else len(outcome.group.readys)
        return Record(
            round=outcome.round,
            outcome="fallback" if failed else "aggregated",
            reason=str(failed.reason) if failed else None,
            participants=members,
            loss=evaluation.loss,
            accuracy=evaluation.accuracy,
            epsilon=None,
            delta=None,
            bytes_sent=self._meter.sent.total(),
            bytes_received=self._meter.received.total(),
            train_s=training.seconds,
            aggregate_s=aggregate_s,
            base_digest=self._state.base.digest.hex(),
            accuracy_of=self._plan.accuracy_of,
            train_loss=training.loss,
            missing=tuple(key.hex()[:16] for key in failed.missing) if failed else (),
            clipped=self._meter.clipped,
            phases=self._meter.phases(training.seconds),
        )

    def status(self) -> dict[str, object]:
        """What /v1/status and the live view show: nothing that came from data."""
        status = self._session.status
        left_s = None if status.deadline is None else max(0.0, status.deadline - self._shell.clock.now())
        return {
            "task": self._plan.task,
            "key": self._plan.key,
            "round": self._session.round,
            "rounds": self._plan.rounds,
            "phase": status.phase,
            "waiting_for": list(status.waiting_for),
            "left_s": left_s,
            "base_digest": self._state.base.digest.hex(),
            "generation": self._state.base.generation,
            "dropped": dict(self.transport.counts.dropped),
        }

    async def summarise(self) -> Summary:
        """The run as a whole, over restarts; written to summary.json."""
        history = self._folder.history()
        evaluation = await self._evaluate()
        sent, received = self.transport.counts.sent.total(), self.transport.counts.received.total()
        summary = Summary(
            rounds=self._session.round,
            aggregated=sum(line.get("outcome") == "aggregated" for line in history),
            fallbacks=sum(line.get("outcome") == "fallback" for line in history),
            accuracy=evaluation.accuracy,
            epsilon=None,
            delta=None,
            base_digest=self._state.base.digest.hex(),
            bytes_sent=self._earlier.bytes_sent + sent,
            bytes_received=self._earlier.bytes_received + received,
            seconds=self._earlier.s + time.monotonic() - self._began,
            accuracy_of=self._plan.accuracy_of,
            task=self._plan.task,
            key=self._plan.key,
            finished=self._session.round >= self._plan.rounds,
            offers=self._state.offers,
            dropped=dict(self.transport.counts.dropped),
        )
        self._folder.summary(summary)
        return summary
