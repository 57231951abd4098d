"""What a node writes down of itself: a line for each round that counts, the models, the run as a whole.

    a round ends ──▶ state: its number and its ending, one step ──▶ base judged and evaluated ──▶ its line

Between the step and the line the process may be killed, or be told to end; then `catch_up` writes the line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from mechanisms.mechanism import Mechanism
from node.net.traffic import Counts
from node.observe.reporting import Reporter
from node.runtime.artifacts import Folder, Summary, total_of
from node.runtime.figures import round_record, run_summary
from node.runtime.loss_gate import Gate, Refused
from node.runtime.plan import Plan
from node.runtime.privacy_budget import facts, spent_by
from node.storage.records import Ending, Traffic
from node.storage.state import State
from node.training.trainer import Evaluation, Learner


class Chronicle:
    """Writes into a node's folder, and tells its owner of each line."""

    def __init__(
        self,
        plan: Plan,
        state: State,
        trainer: Learner,
        mechanism: Mechanism,
        gate: Gate,
        folder: Folder,
        reporter: Reporter,
    ) -> None:
        self._plan = plan
        self._state = state
        self._trainer = trainer
        self._mechanism = mechanism
        self._gate = gate
        self._folder = folder
        self._report = reporter
        self._refused: Refused | None = None
        self._evaluation: tuple[bytes, Evaluation] | None = None
        self._began = time.monotonic()
        self._earlier = Traffic(0.0)
        self._written = 0
        """The last round that has a line."""

    async def begin(self) -> None:
        """Go on with the history that is there, after the line that it lacks where the node was killed."""
        history = await asyncio.to_thread(self._folder.history)
        rounds = (number for line in history if isinstance(number := line.get("round"), int))
        self._written = max(rounds, default=0)
        await self.catch_up()
        self._earlier = total_of(await asyncio.to_thread(self._folder.history))

    def new_round(self) -> None:
        """Whatever the gate refused belongs to the round before."""
        self._refused = None

    def judge(self) -> None:
        """Ask the gate about the base, if it has not been asked yet, and tell the owner if it is refused."""
        refused = self._gate.judge()
        if refused is not None:
            self._refused = refused
            self._report.rolled_back(refused.text)

    async def catch_up(self) -> None:
        """The line of a round that counts and has none yet."""
        ending = self._state.ending
        if ending is not None and ending.round > self._written:
            await self.write(ending)

    async def write(self, ending: Ending) -> None:
        """A round's line, the models after it, and word of it."""
        await asyncio.to_thread(self.judge)
        evaluation = await self._evaluate()
        spent = spent_by(self._mechanism, self._state.ledger)
        accuracy_of, base = self._plan.accuracy_of, self._state.base
        record = round_record(ending, base, accuracy_of, evaluation, spent, self._refused)
        self._written = ending.round  # a line that fails half-way is not begun again by this process
        await asyncio.to_thread(self._folder.append, record)
        await self.save_models()
        self._report.round_ended(record, self._plan.rounds)

    async def _evaluate(self) -> Evaluation:
        """The base's accuracy and loss; worked out once for each base."""
        digest, vector = self._state.base.digest, self._state.base_vector
        if self._evaluation is None or self._evaluation[0] != digest:
            self._evaluation = digest, await asyncio.to_thread(self._trainer.evaluate, vector)
        return self._evaluation[1]

    async def save_models(self) -> None:
        """The agreed base and the working model, as they are now."""
        state, privacy = self._state, facts(self._mechanism, self._state.ledger)
        parts = (self._trainer.tensors, state.base, (state.base_vector, state.working), privacy)
        await asyncio.to_thread(self._folder.models, *parts)

    async def summarise(self, counts: Counts, sums: Mapping[str, object]) -> Summary:
        """The run as a whole, over restarts; written to summary.json. `sums`: what those withstand."""
        evaluation = await self._evaluate()
        summary = run_summary(
            history=self._folder.history(),
            earlier=self._earlier,
            seconds=time.monotonic() - self._began,
            counts=counts,
            evaluation=evaluation,
            privacy=facts(self._mechanism, self._state.ledger),
            plan=self._plan,
            state=self._state,
            sums=sums,
        )
        self._folder.summary(summary)
        return summary
