"""What a round and a run came to, as they are written down: history.jsonl and summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mechanisms.accounting.ledger import Spent
from node.net.traffic import Counts
from node.runtime.artifacts import Record, Summary
from node.runtime.loss_gate import Refused
from node.runtime.meter import Meter
from node.runtime.plan import Plan
from node.storage.records import Ending, Traffic
from node.storage.state import State
from node.training.trainer import Evaluation
from protocol.actions import Completed, Failed
from protocol.wire.messages import Base


@dataclass(frozen=True)
class Training:
    """What is kept of a round's training besides `fresh`: no loss where there was none to spend on it."""

    loss: float | None
    seconds: float
    offered: bool
    """Whether there is something to offer that the privacy budget still allows."""


NO_TRAINING = Training(None, 0.0, False)
"""Of a round in which there was none."""


def ending_of(outcome: Completed | Failed, training: Training, aggregate_s: float, meter: Meter) -> Ending:
    """How a round ended, and what it cost so far."""
    failed = outcome if isinstance(outcome, Failed) else None
    return Ending(
        round=outcome.round,
        outcome="fallback" if failed else "aggregated",
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
        without=() if isinstance(outcome, Failed) else outcome.without,
    )


def round_record(
    ending: Ending,
    base: Base,
    accuracy_of: str,
    evaluation: Evaluation,
    spent: Spent | None,
    refused: Refused | None,
) -> Record:
    """A round's line of history; `spent` is what the run has cost so far."""
    return Record(
        round=ending.round,
        outcome=ending.outcome,
        reason=ending.reason,
        participants=ending.participants,
        loss=evaluation.loss,
        accuracy=evaluation.accuracy,
        epsilon=spent.epsilon if spent else None,
        delta=spent.delta if spent else None,
        bytes_sent=ending.bytes_sent,
        bytes_received=ending.bytes_received,
        train_s=ending.train_s,
        aggregate_s=ending.aggregate_s,
        base_digest=base.digest.hex(),
        accuracy_of=accuracy_of,
        train_loss=ending.train_loss,
        missing=ending.missing,
        clipped=ending.clipped,
        phases=ending.phases,
        metrics=evaluation.metrics,
        rolled_back=refused.losses if refused else None,
        without=ending.without,
    )


def run_summary(
    history: list[dict[str, object]],
    earlier: Traffic,
    seconds: float,
    counts: Counts,
    evaluation: Evaluation,
    privacy: Mapping[str, object] | None,
    plan: Plan,
    state: State,
    sums: Mapping[str, object],
) -> Summary:
    """The run as a whole; `earlier` is what the starts before this one cost, `privacy` the ledger.

    `sums`: what the last group's sums withstand.
    """
    return Summary(
        rounds=state.round,
        aggregated=sum(line.get("outcome") == "aggregated" for line in history),
        fallbacks=sum(line.get("outcome") == "fallback" for line in history),
        accuracy=evaluation.accuracy,
        epsilon=_number(privacy, "epsilon_spent"),
        delta=_number(privacy, "delta"),
        base_digest=state.base.digest.hex(),
        bytes_sent=earlier.bytes_sent + counts.sent.total(),
        bytes_received=earlier.bytes_received + counts.received.total(),
        seconds=earlier.s + seconds,
        accuracy_of=plan.accuracy_of,
        task=plan.task,
        key=plan.key,
        finished=plan.over(state.round, state.base),
        offers=state.offers,
        dropped=dict(counts.dropped),
        privacy=privacy,
        sums=sums,
        metrics=evaluation.metrics,
    )


def _number(privacy: Mapping[str, object] | None, name: str) -> float | None:
    value = privacy[name] if privacy else None
    return value if isinstance(value, float) else None
