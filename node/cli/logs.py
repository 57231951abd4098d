"""The log of a node or a tracker on standard error: one line per event, as text or JSON.

Standard output is for an owner who watches; the log is for programs that collect logs. Both report the same
events. The names of events and fields are stable; docs/operating.md lists them all.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from node.cli.error_handling import guarded, print_error
from node.cli.options import one_of, option
from node.system.errors import one_line

STYLES = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_NAME = "murmuration"
_FIELDS = "murmuration_fields"
_ours = logging.getLogger(_NAME)
_ours.addHandler(logging.NullHandler())  # without --log nothing is written, and nothing falls back to stderr


@dataclass(frozen=True)
class LogOptions:
    """`style`: one of STYLES, None for no log; `level`: the lowest level that is written, one of LEVELS."""

    style: str | None = option(
        "write a log to standard error, one line per event. Default: none",
        one_of(*STYLES),
        name="log",
        metavar="|".join(STYLES),
    )
    level: str = option(
        f"the lowest level that is logged: {', '.join(LEVELS)}. Default: %(default)s",
        one_of(*LEVELS),
        name="log-level",
        default="info",
        metavar="LEVEL",
    )

    def at(self, debug: bool) -> LogOptions:
        """Returns the log that is written with or without --debug."""
        return LogOptions(style=self.style or "text", level="debug") if debug else self


NO_LOG = LogOptions()


class Log:
    """Writes events of one part of the program ("node", "tracker")."""

    def __init__(self, part: str) -> None:
        self._logger = _ours.getChild(part)

    def debug(self, event: str, **fields: object) -> None:
        """Logs a detail that helps only in a search for a fault."""
        self._say(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Logs an event of normal operation."""
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Logs an event that the owner should look at."""
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Logs the error that ends the process."""
        self._say(logging.ERROR, event, fields)

    def _say(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        """Logs an event; `fields` are JSON values, and none is named time, level, part or event."""
        self._logger.log(level, "%s", event, extra={_FIELDS: fields})


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object. `tracebacks`: whether errors of libraries include theirs."""

    def __init__(self, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        return json.dumps({**_head(record), **_fields(record, self._tracebacks)}, default=str)


class TextLines(logging.Formatter):
    """Formats a record for people: time, level, part, event, then name=value."""

    def __init__(self, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        fields = _fields(record, self._tracebacks).items()
        told = (f"{name}={json.dumps(value, default=str)}" for name, value in fields)
        return " ".join((*_head(record).values(), *told))


def _head(record: logging.LogRecord) -> dict[str, str]:
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    ours = hasattr(record, _FIELDS)
    return {
        "time": at.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "part": record.name.removeprefix(f"{_NAME}."),
        "event": record.getMessage() if ours else "library",
    }


def _fields(record: logging.LogRecord, tracebacks: bool) -> dict[str, object]:
    """Returns an event's fields; for a library's record its text and its error."""
    if hasattr(record, _FIELDS):
        return dict(getattr(record, _FIELDS))
    fields: dict[str, object] = {"text": one_line(record.getMessage())}
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        fields["error"] = one_line(f"{type(error).__name__}: {error}")
        if tracebacks:
            fields["traceback"] = "".join(traceback.format_exception(error))
    return fields


@contextmanager
def logging_to(stream: TextIO, options: LogOptions) -> Iterator[None]:
    """Writes events, and warnings of libraries, to `stream` inside the context, as `options` say."""
    if options.style is None:
        yield
        return
    handler = logging.StreamHandler(stream)
    lines = JsonLines if options.style == "json" else TextLines
    handler.setFormatter(lines(options.level == "debug"))
    everything, level = logging.getLogger(), _ours.level
    everything.addHandler(handler)
    _ours.setLevel(options.level.upper())
    try:
        yield
    finally:
        everything.removeHandler(handler)
        _ours.setLevel(level)


def complain(options: LogOptions, part: str) -> Callable[[str, int], None]:
    """Returns the function that reports why a process ends: an event in a JSON log, else a line of text."""

    def as_event(text: str, status: int) -> None:
        Log(part).error("failed", text=text, status=status)

    return as_event if options.style == "json" else print_error


def logging_of(part: str) -> Callable[[Any, Callable[[], int]], int]:
    """Returns what runs a part of the program with the log of its options, `log` and `debug`."""

    def within(options: Any, run: Callable[[], int]) -> int:
        with logging_to(sys.stderr, options.log):
            return guarded(run, options.debug, complain(options.log, part))

    return within
