"""The figures of a round and of a run. Each is declared once, with its words and all places where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import add
from typing import Self, TypeVar

from node.runtime.record.fields import (
    Logged,
    Scraped,
    file_line,
    joined_values,
    kept_values,
    page_line,
    told,
)
from node.storage.plain import salvaged
from node.storage.records import NO_TRAFFIC, SwarmFigure, Traffic
from node.training.figures.headline import Alone, Headline, companion
from node.training.figures.metric_words import compared_text, figures_text

AGGREGATED = "aggregated"
_AS_THERE = "As in the history."


Value = TypeVar("Value")


def _is_there(value: object) -> bool:
    return value is not None


def _either(last: Value, earlier: Value) -> Value:
    return last or earlier


def _outcome(last: str, earlier: str) -> str:
    return last if last == AGGREGATED else earlier


def _all_of(last: tuple[str, ...], earlier: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*earlier, *last)))


def _phases(last: Mapping[str, Traffic], earlier: Mapping[str, Traffic]) -> dict[str, Traffic]:
    both = {**earlier, **last}
    return {name: last.get(name, NO_TRAFFIC).plus(earlier.get(name, NO_TRAFFIC)) for name in both}


@dataclass(frozen=True, slots=True)
class Record:
    """A round: how it ended and what it cost, then how good the base is. It is a line of history.jsonl.

    The state stores the fields that are `kept` in one step with the round's number, so that a round that
    counts gets its line even after a crash in between. The others can be computed again from the base.
    """

    round: int = told(
        "The round's number, from 1: how many agreed sums led to its model. A round alone has the number of "
        "the sum that did not come.",
        0,
        log=Logged(1),
    )
    outcome: str = told(
        "`aggregated` with others, or `fallback`: the node kept its own update.",
        "",
        log=Logged(5),
        kept=True,
        joined=_outcome,
    )
    reason: str | None = told("The reason for a fallback; see below.", None, log=Logged(6), kept=True)
    participants: int = told(
        "The number of updates in the sum; 0 for a fallback.",
        0,
        log=Logged(7),
        kept=True,
        metric=Scraped(
            "murmuration_round_participants",
            "Peers whose updates are in the last round's sum; 0 for a round alone.",
        ),
        joined=_either,
    )
    loss: float | None = told(
        "The agreed model's loss on the test rows; null if these are too few to validate.", None
    )
    accuracy: float | None = told("Its accuracy there; null for numeric targets.", None, log=Logged(9))
    epsilon: float | None = told(
        "The epsilon that the run has spent so far; null without privacy, or if nothing bounds it.",
        None,
        log=Logged(14, digits=None),
    )
    delta: float | None = told(
        "At which delta; null without privacy.", None, digits=None, log=Logged(16, digits=None), page=False
    )
    bytes_sent: int = told("Bytes sent in this round.", 0, log=Logged(17), kept=True, joined=add)
    bytes_received: int = told("Bytes received in it.", 0, log=Logged(18), kept=True, joined=add)
    train_s: float = told("Seconds of training.", 0.0, log=Logged(19), kept=True, joined=add)
    aggregate_s: float = told(
        "Seconds from the offer to the outcome.", 0.0, log=Logged(20), kept=True, joined=add
    )
    base_digest: str = told(
        "The agreed model's digest; peers with equal digests have equal models.",
        "",
        log=Logged(25),
        page=False,
    )
    accuracy_of: str = told(
        "`test`: rows common to all; `validation`: a part of the node's own rows.",
        "",
        log=Logged(10),
        page=False,
    )
    train_loss: float | None = told("The training loss; null if nothing was trained.", None, kept=True)
    missing: tuple[str, ...] = told(
        "The peers whose silence ended the round, by the first digits of their keys.",
        (),
        log=Logged(8),
        kept=True,
        joined=_all_of,
    )
    clipped: int = told(
        "How many coordinates of the offer were clipped to the bound.",
        0,
        log=Logged(21),
        kept=True,
        page=False,
        metric=Scraped(
            "murmuration_clipped_coordinates",
            "Coordinates of offers that were cut to the bound.",
            is_counter=True,
        ),
    )
    phases: Mapping[str, Traffic] = told(
        "Seconds and bytes by phase.", factory=dict, kept=True, page=False, joined=_phases
    )
    metrics: Mapping[str, float | None] = told(
        "The metrics in `train.metrics`, on the same rows.", factory=dict, page=False
    )
    metric: str = told(
        "The headline: the metric that says most about the model on these rows.", "accuracy", log=Logged(11)
    )
    value: float | None = told(
        "The headline's value; null if these rows do not define it.", None, log=Logged(12)
    )
    baseline: float | None = told(
        "What the best constant answer reaches on these rows; null if that is not defined.",
        None,
        log=Logged(13),
    )
    only_class: str | None = told(
        "The class that the model gives every row, though the rows have several; otherwise null.", None
    )
    flaws: tuple[str, ...] = told(
        "What else is wrong with the model on these rows, in words; often empty.", ()
    )
    rolled_back: tuple[float | None, float | None] | None = told(
        "If a loss gate refused the model: the lowest loss so far, and this model's loss.",
        None,
        log=Logged(22),
        outside=_is_there,
    )
    without: tuple[str, ...] = told(
        "Electors of the previous model that counted as gone for good when this one was made.",
        (),
        log=Logged(23),
        kept=True,
        joined=_either,
    )
    steps: int = told(
        "The steps of this round that the node was in; 0 where a round is one sum of updates.",
        0,
        kept=True,
        joined=add,
    )
    steps_failed: int = told(
        "The sums of this round that failed: each cost the charge of a step.",
        0,
        kept=True,
        joined=add,
        metric=Scraped("murmuration_sums_failed", "Sums of steps or of a job that failed.", is_counter=True),
    )
    epsilon_alone: float | None = told(
        "Where members share noise: the epsilon spent so far if all others work together.",
        None,
        log=Logged(15, digits=None, always=False),
    )
    swarm: SwarmFigure | None = told(
        "With `aggregation.swarm_metric`: a metric of all members' rows for the model that the round began "
        "with, and `mine` on this node's own rows; null in rounds without it. With privacy it is an "
        "estimate, and `error` its standard error by the noise.",
        None,
        kept=True,
    )
    names: Mapping[str, str] = told(
        "The names that `--names` gives to the keys in `missing`.",
        factory=dict,
        log=Logged(24, always=False),
    )
    own: int = told(
        "Which round of this node's own it was, with others or alone, from 1; each has one line.",
        0,
        log=Logged(3),
        page=False,
    )
    alone: int = told(
        "How many rounds in a row, this one included, ended alone; 0 if a model came.",
        0,
        log=Logged(4),
        kept=True,
    )

    purpose: str | None = told(
        "In a job whose sums all have the same members, what the round's last sum was for: `cells`, "
        "`curves`, `trees` or `metric`; null in other runs.",
        None,
        log=Logged(26, always=False),
    )
    sum_number: int | None = told(
        "In such a job, the number of that sum, from 1; null in other runs.",
        None,
        log=Logged(27, always=False),
    )

    @property
    def headline(self) -> Headline:
        """The headline as a value."""
        return Headline(self.metric, self.value, self.baseline, self.only_class)

    @property
    def figures(self) -> str:
        """How good the base is, in words, such as `test accuracy 95.8 % (largest class 10.2 %)`."""
        return figures_text(self.accuracy_of, self.headline, self.metrics)

    @property
    def ended(self) -> int:
        """The last round of the run that had ended by then; a round alone ends no round of the run."""
        return self.round - bool(self.alone)

    @property
    def of_all(self) -> float | None:
        """The headline's metric on all members' rows, for the model before the round; None if not counted."""
        return self.swarm.value if self.swarm is not None and self.swarm.metric == self.metric else None

    def as_json(self) -> dict[str, object]:
        """Returns plain values for JSON, floats rounded to six digits, None for one that is not finite."""
        return file_line(self)

    def on_page(self) -> dict[str, object]:
        """Returns what the page shows of the round, with the metric beside the headline."""
        beside = companion(self.metric, self.metrics)
        value = None if beside is None else self.metrics[beside]
        return {**page_line(self), "beside": value, "beside_metric": beside}

    @classmethod
    def from_line(cls, line: str | bytes) -> Self | None:
        """Reads a line of history.jsonl, also of an earlier version; None for one that a crash cut off."""
        values = line_values(line)
        if values is None or not isinstance(values.get("round"), int):
            return None
        return salvaged(cls, {"value": values.get("accuracy"), **values})  # before there were headlines

    def after(self, earlier: Record) -> Record:
        """Returns this ending plus the cost of the earlier sums of the same round."""
        return replace(self, **joined_values(self, earlier))  # type: ignore[arg-type]

    def to_ending(self) -> str:
        """Returns what is kept as one line of JSON; `round` is 0 unless the sum is a step of it."""
        return json.dumps({**kept_values(self), "round": self.own, "part_of": self.round or None})

    @classmethod
    def from_ending(cls, text: str) -> Self:
        """Reads the line that `to_ending` returned."""
        values = json.loads(text)
        return salvaged(cls, {**values, "own": values["round"], "round": values.get("part_of") or 0})


def line_values(line: str | bytes) -> dict[str, object] | None:
    """Returns the object in a line of history.jsonl as it is; None for a line that a crash cut off."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


@dataclass(frozen=True)
class Summary:
    """summary.json: the whole run, over restarts."""

    rounds: int = told("The last round's number.", log=Logged(1))
    aggregated: int = told("How many rounds were aggregated.", log=Logged(2))
    fallbacks: int = told("How many were not.", log=Logged(3))
    accuracy: float | None = told("The agreed model's accuracy; null for numeric targets.", log=Logged(4))
    epsilon: float | None = told(
        "The epsilon that the run has spent; null without privacy, or if nothing bounds it.",
        log=Logged(9, digits=None),
    )
    delta: float | None = told(
        "At which delta; null without privacy.", digits=None, log=Logged(11, digits=None)
    )
    base_digest: str = told("The agreed model's digest.", log=Logged(15))
    bytes_sent: int = told("Bytes sent, including earlier starts.", log=Logged(12))
    bytes_received: int = told("Bytes received, including earlier starts.", log=Logged(13))
    seconds: float = told("Seconds, including earlier starts.", log=Logged(14, digits=3))
    accuracy_of: str = told(_AS_THERE, log=Logged(5))
    task: str = told("The task's name.")
    key: str = told("This node's public key.")
    finished: bool = told(
        "Whether the run is over: the node has the last sum's model, or no sum can come any more."
    )
    offers: int = told("How many offers were charged.")
    dropped: Mapping[str, int] = told("Incoming messages that were refused, by reason.")
    privacy: Mapping[str, object] | None = told(
        "The ledger: spent, remaining, unit, neighbours, what is not covered; under `apart` what the key has "
        "spent for other units, and under `no_bound` why no epsilon holds, if none does.",
        digits=None,
    )
    sums: Mapping[str, object] = told("What the sums of the last group withstand.", digits=None)
    metrics: Mapping[str, float | None] = told(_AS_THERE)
    metric: str = told("The headline of the agreed model, as in the history.", log=Logged(6))
    value: float | None = told("Its value.", log=Logged(7))
    baseline: float | None = told(_AS_THERE, log=Logged(8))
    only_class: str | None = told(_AS_THERE, None)
    flaws: tuple[str, ...] = told(_AS_THERE, ())
    epsilon_alone: float | None = told(
        "Where members share noise: the epsilon spent if all others work together.",
        None,
        log=Logged(10, digits=None, always=False),
    )
    swarm: SwarmFigure | None = told("The last metric of all members' rows, as in the history.", None)
    generation: int = told("How many agreed models led to the last one; 0 if the node trained alone.", 0)
    alone: Alone | None = told(
        "How good the same model is, trained on this node's rows without the others: `metric`, `value`, and "
        "how much of the run's training it had (`trained`); null with privacy, and if there is none.",
        None,
    )
    left_behind: bool = told(
        "Whether others have begun another job with --again while this node was away; then it may, too.",
        False,
    )
    made: str = told(
        "In a job whose sums all have the same members, what its model is made of once it is over, in words: "
        "how many trees stay after the curves, and why no more; empty in other runs.",
        "",
    )
    gone: tuple[str, ...] = told(
        "Who was not there when a job without noise stopped unfinished, whose sums all have the members of "
        "the first one; empty if it did not.",
        (),
    )

    @property
    def headline(self) -> Headline:
        """The headline as a value."""
        return Headline(self.metric, self.value, self.baseline, self.only_class)

    @property
    def all_metrics(self) -> str:
        """The figures with every metric, for a run that nothing is compared with."""
        return figures_text(self.accuracy_of, self.headline, self.metrics, whole=True)

    @property
    def figures(self) -> str:
        """How good the base is, in words, such as `test accuracy 95.8 % (largest class 10.2 %)`."""
        return self.beside(self.alone)

    def beside(self, alone: Alone | None) -> str:
        """`figures`, beside those of a model of the owner's rows alone, if there is one."""
        if alone is None:
            return figures_text(self.accuracy_of, self.headline, self.metrics)
        return compared_text(self.accuracy_of, self.headline, self.metrics, alone)

    def as_json(self) -> dict[str, object]:
        """Returns plain values for JSON, floats rounded to six digits."""
        return file_line(self)
