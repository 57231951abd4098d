"""Chooses how standard output shows events: as a live table on a terminal, as lines, or as JSON."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from node.observe.lines import JsonOutput, TextOutput
from node.runtime.events import Observer
from node.runtime.snapshot import Show


@dataclass(frozen=True)
class StandardOutput:
    """The observer of events, and the live view between events; None if there is none."""

    observer: Observer
    show: Show | None


def choose_output(as_json: bool) -> StandardOutput:
    """Returns the output for this process's standard output."""
    if as_json:
        return StandardOutput(observer=JsonOutput(sys.stdout), show=None)
    if sys.stdout.isatty():
        from node.observe.live import LiveView  # noqa: PLC0415 - rich is loaded only for a terminal

        view = LiveView()
        return StandardOutput(observer=view, show=view.show)
    return StandardOutput(observer=TextOutput(sys.stdout), show=None)
