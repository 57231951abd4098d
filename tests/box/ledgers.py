"""What nodes of a box have charged, and that each offer is charged before a byte of it leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from mechanisms.accounting.ledger import Event, Ledger, event_from_text, privacy_spent
from protocol.wire.messages import Sid
from tests.box.box import BoxNode
from tests.box.invariants import ChargedFirst
from tests.run_folders import fact, rows, summary


@dataclass(frozen=True)
class Charge:
    """A row of a node's ledger."""

    sid: Sid
    round: int
    events: tuple[Event, ...]
    epsilon: float | None
    delta: float | None


def pending(folder: Path) -> tuple[Event, ...]:
    """Returns what trainings cost that no offer has been charged for yet."""
    return tuple(map(event_from_text, (fact(folder, "pending") or "").splitlines()))


def charges(folder: Path) -> list[Charge]:
    """Returns a folder's charges in the order in which they were made."""
    return [
        Charge(sid, round, tuple(map(event_from_text, events.splitlines())), epsilon, delta)
        for sid, round, events, epsilon, delta in rows(
            folder, "select sid, round, events, epsilon, delta from ledger order by round, at_ms"
        )
    ]


def booked_once(node: BoxNode) -> None:
    """Checks that a node's ledger holds all that has left it, each session and each round once."""
    (rule,) = (one for one in node.box.watchers if isinstance(one, ChargedFirst))
    found = charges(node.folder)
    assert rule.offered[node.number] <= {charge.sid for charge in found}
    assert len({charge.round for charge in found}) == len({charge.sid for charge in found}) == len(found)


def sound(folder: Path, budget: float, delta: float) -> list[Charge]:
    """Returns the charges: one for each offer, with the running total; summary and spend file agree."""
    found, ledger = charges(folder), Ledger(())
    for charge in found:
        ledger = ledger.adding(charge.events)
        assert (charge.epsilon, charge.delta) == (
            pytest.approx(privacy_spent(ledger, delta).epsilon, rel=1e-9),
            delta,
        )
    assert all(one.epsilon < other.epsilon for one, other in pairwise(found))
    assert len({charge.round for charge in found}) == len({charge.sid for charge in found}) == len(found)
    said = summary(folder)
    assert said["offers"] == len(found)
    assert said["privacy"]["epsilon_spent"] == found[-1].epsilon <= budget * (1 + 1e-9)
    assert said["epsilon"] == pytest.approx(found[-1].epsilon, abs=1e-6)
    assert said["delta"] == said["privacy"]["delta"] == delta
    assert [(one.sid.hex(), one.round) for one in found] == _in_spend_file(
        (folder / "node.key.spent").read_bytes()
    )
    return found


def _in_spend_file(content: bytes) -> list[tuple[str, int]]:
    lines = [json.loads(line.partition(b" ")[2]) for line in content.splitlines()]
    return [(line["sid"], line["round"]) for line in lines]
