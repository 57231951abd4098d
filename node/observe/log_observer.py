"""A node's events in its log, with stable field names.

The log contains no loss, row, update, share or private key, because other people may collect logs. It does
contain the headline metric, because the log is the owner's own; a public key is cut to its first digits. The
figures of the owner's rows alone (node.runtime.record.own_figures) are in no line, with or without privacy.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.cli.logs import Log
from node.observe.journal import PAGE
from node.observe.lines import alone_text, event_values
from node.runtime.clocks import THIS_MACHINE
from node.runtime.notices import parting_words
from node.runtime.record import events
from node.runtime.record.events import NodeEvent
from node.runtime.record.fields import log_line
from protocol.actions import Note, Notice

_UNWELCOME = frozenset({Note.REFUSED, Note.NOT_ALLOWED, Note.WRONG_PIN, Note.OTHER_SWARM})
_ODD = frozenset({Note.CLOCK, Note.EPOCH, Note.OTHER_VERSION})
_OF_THE_SWARM = frozenset({Note.WAITING, Note.WEAK, Note.QUORUM, Note.FOLLOWS, Note.STAYS})
_EXPLAINED = frozenset(
    {
        *_UNWELCOME,
        *_ODD,
        Note.LOST,
        Note.UNREACHABLE,
        Note.COORDINATOR,
        Note.SLOW,
        Note.BEHIND,
        Note.WITHHOLDS,
    }
)
KEY_DIGITS = 16


def log_notice(log: Log, notice: Notice, text: str, name: str = "") -> None:
    """Logs a notice about a peer as the event `peer-KIND`; `text` is the complete notice in words.

    `name`: the owner's name of the peer's key.

    A notice about the swarm is logged as the event `KIND`.
    """
    if notice.kind in _OF_THE_SWARM:
        (log.info if notice.kind in (Note.QUORUM, Note.STAYS) else log.warning)(str(notice.kind), text=text)
        return
    say = log.warning if notice.kind in _UNWELCOME | _ODD else log.info
    about = {"why": text} if notice.kind in _EXPLAINED else {"key": notice.text}
    if notice.parting is not None:
        about["why"] = parting_words(notice.parting)
    if name:
        about["name"] = name
    say(f"peer-{notice.kind}", peer=notice.who or THIS_MACHINE, **about)


class LogObserver:
    """Writes a node's events as lines of its log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def handle(self, event: NodeEvent) -> None:
        """Writes one line."""
        log = self._log
        match event:
            case events.Started(lines):
                log.info("started", **_started_fields(lines))
            case events.GroupResized(group):
                log.info("sums", text=group.text, **group.facts)
            case events.RoundStarted(number):
                log.debug("training", round=number)
            case events.RoundEnded(record, rounds):
                log.info("round", **{"round": record.round, "rounds": rounds} | log_line(record))
            case (
                events.CaughtUp()
                | events.Outpaced()
                | events.Draining()
                | events.Comparing()
                | events.Lingering()
            ):
                fields = event_values(event)
                log.info(str(fields.pop("event")), **fields)
            case events.Noticed(notice, text, name):
                log_notice(log, notice, text, name)
            case events.RolledBack():
                log.warning("rolled-back")  # its text contains two losses
            case events.Warned(text):
                log.warning("warning", text=text)
            case events.Finished(summary, _, exact):
                if alone := alone_text(summary, exact=exact):
                    log.warning("alone", text=alone)
                log.info("finished" if summary.finished else "stopped", **log_line(summary))


def _started_fields(lines: Mapping[str, str]) -> dict[str, object]:
    """Returns the node's key, address and start-up lines, without the page's address and its token."""
    key, _, endpoint = lines["node"].partition(" at ")
    told = {name: value for name, value in lines.items() if name not in ("node", PAGE)}
    words = {name.replace(" ", "_"): value for name, value in told.items()}
    return {"key": key[:KEY_DIGITS], "listen": endpoint, **words}
