"""What a node was asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Up to which round this node goes, and how it is named."""

    rounds: int
    task: str
    key: str
    accuracy_of: str
    parameters: str
    """The canonical text that all members share."""
