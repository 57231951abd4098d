"""A node's events on standard output: lines for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TextIO

from node.runtime.privacy.budget import ledger_text
from node.runtime.record import events
from node.runtime.record.events import NodeEvent
from node.runtime.record.figures import Record, Summary
from node.runtime.record.own_figures import NONE_KNOWN, NOT_COVERED, OwnFigures
from node.storage.nicknames import DIGITS
from node.system.errors import counted
from node.training.figures.metric_words import swarm_text
from protocol.actions import Reason

NOTHING_YET = "nothing is learned yet"
"""Of a base whose curves and trees are still to come."""


def round_text(record: Record, rounds: int) -> str:
    """Returns a round in one line."""
    good = NOTHING_YET if record.purpose == "cells" else record.figures
    times = f"train {record.train_s:.2f} s, aggregate {record.aggregate_s:.2f} s"
    alone = record.epsilon_alone
    colluding = "" if alone is None else f" ({alone:.3g} if all others work together)"
    unbound = "" if record.delta is None else "NO BOUND on what is spent; "
    spent = unbound if record.epsilon is None else f"epsilon {record.epsilon:.3f} spent{colluding}; "
    back = "; rolled back" if record.rolled_back else ""
    together = "" if record.swarm is None else f"{swarm_text(record.swarm)}; "
    which = f"round {record.round}/{rounds}"
    if record.purpose is not None:
        which = f"sum {record.sum_number} ({record.purpose})"
        times = f"own rows {record.train_s:.2f} s, together {record.aggregate_s:.2f} s"
    return f"{which}: {_outcome_text(record)}{back}; {good}; {together}{spent}{times}"


def missing_text(record: Record) -> str:
    """Returns whose silence ended a round: the owner's names, or the first digits of keys."""
    return ", ".join(record.names.get(key, key[:DIGITS]) for key in record.missing)


def _outcome_text(record: Record) -> str:
    missing = f", missing {missing_text(record)}" if record.missing else ""
    if record.purpose is not None:
        return _sum_text(record, missing)
    if record.reason is None:
        failed = f" and {record.steps_failed} more failed{missing}" if record.steps_failed else ""
        steps = f", {counted(record.steps, 'step')}{failed}" if record.steps else ""
        without = f", WITHOUT {', '.join(record.without)} (gone for good)" if record.without else ""
        return f"aggregated with {record.participants} peers{steps}{without}"
    if record.reason == Reason.ALL_SPENT:
        return "offered nothing: too few members have any privacy budget left"
    if record.reason == Reason.BUDGET_SPENT:
        return "offered nothing (the privacy budget is spent), followed the others"
    alone = f", {counted(record.alone, 'round')} alone in a row" if record.alone > 1 else ""
    return f"own update kept ({record.reason}{missing}){alone}"


def _sum_text(record: Record, missing: str) -> str:
    """Returns how a sum ended whose members are those of the first one."""
    if record.reason is None:
        failed = f", after {counted(record.steps_failed, 'sum')} that failed{missing}"
        return f"{record.participants} members{failed if record.steps_failed else ''}"
    if record.reason == Reason.LATE_MEMBER:
        return (
            "made by the others; this node came after the first sum, and its rows count from the next job on"
        )
    again = f", {counted(record.alone, 'time')} in a row" if record.alone > 1 else ""
    return f"it did not come ({record.reason}{missing}){again}"


def summary_text(summary: Summary, own: OwnFigures = NONE_KNOWN, *, exact: bool = False) -> str:
    """Returns a run in one line, and its privacy ledger, if there is one, in another.

    `exact`: it was a job whose sums all have the same members.
    """
    secret = own.alone if own.secret else None
    said = summary.figures if secret is None else f"{summary.beside(secret)} (alone: {NOT_COVERED})"
    good = "; ".join((summary.all_metrics if exact else said, *summary.flaws))
    if exact and not summary.finished and summary.only_class is not None:
        good = NOTHING_YET
    together = "" if summary.swarm is None else f"{swarm_text(summary.swarm)}; "
    ledger = f"\n{ledger_text(summary.privacy)}" if summary.privacy else ""
    rounds = f"round {summary.rounds}: {summary.aggregated} aggregated, {summary.fallbacks} on its own"
    after = counted(summary.generation, "sum") if exact else rounds
    made = f": {summary.made}" if summary.made else ""
    stopped = "stopped unfinished" if exact else "stopped"
    return (
        f"{'finished' if summary.finished else stopped} after {after}{made}; {good}; {together}"
        f"base {summary.base_digest[:16]}; "
        f"{summary.bytes_sent / 1e6:.1f} MB sent in {summary.seconds:.0f} s{ledger}"
    )


def alone_text(summary: Summary, *, exact: bool = False) -> str:
    """Returns the last line of a run without one aggregated round; empty for any other run."""
    rounds = summary.aggregated + summary.fallbacks
    if summary.aggregated or not rounds:
        return ""
    if summary.generation and exact:
        return (
            "this node came after the first sum: the result is of the others' rows, and its own count from "
            "the next job on"
        )
    if summary.generation:
        return f"0 of {rounds} rounds were aggregated with you: the model is the work of others"
    return (
        f"you trained alone: 0 of {rounds} rounds were aggregated; start the nodes together, or let each "
        "wait for the others: --wait forever"
    )


def event_texts(event: NodeEvent) -> tuple[str, ...]:
    """Returns an event in words, as one text per line."""
    match event:
        case events.Started(lines):
            return tuple(f"{name}: {value}" for name, value in lines.items())
        case events.GroupResized(group):
            return (f"sums: {group.text}",)
        case events.RoundStarted():
            return ()  # a round's line comes at its end
        case events.RoundEnded(record, rounds):
            return (round_text(record, rounds),)
        case events.Noticed() | events.CaughtUp() | events.Outpaced():
            return (event.text,)
        case events.Draining() | events.Comparing() | events.Lingering():
            return (event.text,)
        case events.Warned(text) | events.RolledBack(text):
            return (f"warning: {text}",)
        case events.Finished(summary, own, exact):
            alone = alone_text(summary, exact=exact)
            return (summary_text(summary, own, exact=exact), *([f"warning: {alone}"] if alone else []))


def event_values(event: NodeEvent) -> dict[str, object]:
    """Returns an event for programs: its kind under `event`, and its fields."""
    match event:
        case events.Started(lines):
            return {"event": "started", **lines}
        case events.GroupResized(group):
            return {"event": "sums", "text": group.text, **group.facts}
        case events.RoundStarted(number):
            return {"event": "training", "round": number}
        case events.RoundEnded(record):
            return {"event": "round", **record.as_json()}
        case events.CaughtUp(base, how):
            digest = base.digest.hex()
            return {"event": "caught-up", "generation": base.generation, "base_digest": digest, "how": how}
        case events.Outpaced(train_s, rounds, number):
            return {"event": "outpaced", "train_s": train_s, "rounds": rounds, "round": number}
        case events.Noticed(text=text):
            return {"event": "notice", "text": text}
        case events.Warned(text) | events.RolledBack(text):
            return {"event": "warning", "text": text}
        case events.Draining(within_s) | events.Comparing(within_s):
            return {"event": type(event).__name__.lower(), "within_s": within_s}
        case events.Finished(summary):
            return {"event": "finished", **summary.as_json()}
        case events.Lingering(for_s):
            return {"event": "lingering", "for_s": for_s}


class TextOutput:
    """Writes events in words."""

    def __init__(self, out: TextIO, texts: Callable[[NodeEvent], Sequence[str]] = event_texts) -> None:
        """`texts` returns the words of an event."""
        self._out = out
        self._texts = texts

    def handle(self, event: NodeEvent) -> None:
        """Prints a line for each of the event's texts."""
        for text in self._texts(event):
            print(text, file=self._out, flush=True)


class JsonOutput:
    """Writes events as JSON."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def handle(self, event: NodeEvent) -> None:
        """Prints the event as one object on one line."""
        print(json.dumps(event_values(event)), file=self._out, flush=True)
