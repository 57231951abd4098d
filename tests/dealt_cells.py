"""Small cells with rows of a published data set, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scenarios.engines.room import LocalRoom
from scenarios.swarms.dealt import ACCURACY, PeersCell, ServerCell

Table = Mapping[str, Mapping[str, Any]]

MODEL = {"class": "node.models:MLP", "args": {"sizes": [64, 8, 10]}}
SHARED: Table = {
    "task": {"name": "digits"},
    "model": MODEL,
    "train": {"expected_rows": 1438, "steps": 6, "report_every": 3},
    "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 3, "honest": 2},
    "aggregation": {"min_participants": 5},
}
LOCAL: Table = {
    "task": {"name": "digits"},
    "model": MODEL,
    "train": {"rounds": 2, "epochs": 1, "batch_size": 64},
    "privacy": {"mechanism": "dp-sgd", "epsilon": 3},
}


def peers(table: Table = SHARED, measure: str = ACCURACY) -> PeersCell:
    return PeersCell("arm", table, "digits", measure, peers=5)


def server(table: Table = SHARED) -> ServerCell:
    return ServerCell("arm", table, "digits", ACCURACY)


def room(folder: Path = Path("nowhere")) -> LocalRoom:
    return LocalRoom(folder, 1, lambda number, figure: None)
