"""Chooses how standard output shows events: as a live table on a terminal, as lines, or as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TextIO

from node.observe.lines import JsonOutput, TextOutput, event_texts
from node.runtime.record.events import Finished, NodeEvent, Observer
from node.runtime.record.own_figures import NONE_KNOWN
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
    kept = is_journal(sys.stdout, os.environ)
    return StandardOutput(observer=TextOutput(sys.stdout, open_texts if kept else event_texts), show=None)


def is_journal(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Returns whether a stream is systemd's journal, which others may collect (systemd.exec(5))."""
    try:
        found = os.fstat(out.fileno())
    except OSError:  # a stream of the program's own
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def open_texts(event: NodeEvent) -> tuple[str, ...]:
    """Returns an event in words, without secret figures of the owner's rows."""
    return event_texts(replace(event, own=NONE_KNOWN) if isinstance(event, Finished) else event)
