"""How standard output shows what happens: as a live table on a terminal, as lines, or as JSON."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from node.observe.lines import JsonOutput, TextOutput
from node.runtime.events import Observer
from node.runtime.snapshot import Show


@dataclass(frozen=True)
class StandardOutput:
    """What is told of events, and what moves between them; None where nothing does."""

    observer: Observer
    show: Show | None


def choose_output(as_json: bool) -> StandardOutput:
    """For this process's standard output."""
    if as_json:
        return StandardOutput(observer=JsonOutput(sys.stdout), show=None)
    if sys.stdout.isatty():
        from node.observe.live import LiveView  # noqa: PLC0415 - rich is loaded only where it shows

        view = LiveView()
        return StandardOutput(observer=view, show=view.show)
    return StandardOutput(observer=TextOutput(sys.stdout), show=None)
