"""What tasks of a Ray cluster tell the driver, in a process of its own that loads nothing else."""

from __future__ import annotations

from typing import Any


class News:
    """An actor that collects what tasks tell until the driver fetches it."""

    def __init__(self) -> None:
        self._told: list[Any] = []

    def told(self, news: Any) -> None:
        """Record what a task tells."""
        self._told.append(news)

    def taken(self) -> list[Any]:
        """Return what was recorded and forget it."""
        told, self._told = self._told, []
        return told
