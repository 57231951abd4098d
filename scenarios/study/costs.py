"""What communication costs, and what epsilon is spent, round by round: names of facts and series.

Bytes are those of vectors as they travel, without the messages around them; where real nodes ran they are
measured, with everything that was sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

from mechanisms.accounting.ledger import Event, Ledger, event_from_text, privacy_spent, to_text
from scenarios.study.cells import Fact, Outcome

UP, DOWN = "bytes up a client and round", "bytes down a client and round"
MEASURED = "bytes were measured"
EVENTS, ONCE = "events of each round", "spent once"
"""Names of facts. EVENTS: as JSON, if a mechanism spends the same in each round. ONCE: whether all is spent
before the first round ends, as by noise on the rows."""
TRAFFIC, EPSILON = "bytes of a round", "epsilon until a round"
"""Names of series, with a number for each round. TRAFFIC: the bytes that all parties together send in it."""


def event_facts(events: Callable[[int], Sequence[Event]], rounds: int) -> dict[str, Fact]:
    """The facts about a mechanism that has these `events` in a number of rounds.

    {} if it spends neither the same in every round nor all at once: then nothing is known before the end.
    """
    each, last = tuple(events(1)), Ledger.of(events(rounds))
    if last == Ledger(tuple((event, rounds) for event in each)):
        return {ONCE: False, EVENTS: json.dumps([to_text(event) for event in each])}
    if last == Ledger.of(each):
        return {ONCE: True}
    return {}


def epsilon_after(outcome: Outcome, rounds: int) -> float | None:
    """The epsilon after that many rounds; None if it is infinite, or not known for a part of the rounds."""
    facts, whole = outcome.facts, outcome.facts.get("epsilon")
    if EPSILON in outcome.series:
        return outcome.series[EPSILON][rounds - 1]
    if not isinstance(whole, int | float):
        return None
    if rounds == len(outcome.figures) or facts.get(ONCE) is True:
        return float(whole)
    each, delta = facts.get(EVENTS), facts.get("delta")
    if not isinstance(each, str) or not isinstance(delta, int | float):
        return None
    ledger = Ledger(tuple((event_from_text(text), rounds) for text in json.loads(each)))
    found = privacy_spent(ledger, delta).epsilon
    return found if math.isfinite(found) else None


def epsilon_series(values: Sequence[float | None]) -> dict[str, tuple[float, ...]]:
    """The series EPSILON of `values`; {} without privacy, or if one of them is infinite or not known."""
    found = tuple(value for value in values if value is not None and math.isfinite(value))
    return {EPSILON: found} if found and len(found) == len(values) else {}


def sent_until(outcome: Outcome, rounds: int) -> float | None:
    """The bytes that all parties sent in the first `rounds` rounds; None in outcomes of earlier versions."""
    traffic = outcome.series.get(TRAFFIC)
    return None if traffic is None else math.fsum(traffic[:rounds])
