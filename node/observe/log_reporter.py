"""What a node's life looks like in its log: the events that its owner is told, with fields of stable names.

No loss is written, and no row, update, share or private key: a log may end up with whoever collects logs.
Accuracy is, as the log is the owner's own; a public key is cut to its first digits.
"""

from __future__ import annotations

from node.logs import Log
from node.observe.fan_out import SilentReporter
from node.observe.journal import PAGE
from node.runtime.artifacts import Record, Summary
from node.runtime.group_guarantees import Withstands
from protocol.actions import Note, Notice
from protocol.wire.messages import Base

_UNWELCOME = frozenset({Note.REFUSED, Note.NOT_ALLOWED, Note.WRONG_PIN, Note.OTHER_SWARM})
_ODD = frozenset({Note.CLOCK, Note.EPOCH})
_OF_THE_SWARM = frozenset({Note.WAITING, Note.WEAK, Note.QUORUM})
_EXPLAINED = frozenset({*_UNWELCOME, *_ODD, Note.LOST, Note.UNREACHABLE, Note.COORDINATOR})
KEY_DIGITS = 16


def log_notice(log: Log, notice: Notice, text: str) -> None:
    """Something about a peer, as the event `peer-KIND`; `text` is the whole of it in words.

    What is about the swarm is an event `KIND`.
    """
    if notice.kind in _OF_THE_SWARM:
        (log.info if notice.kind is Note.QUORUM else log.warning)(str(notice.kind), text=text)
        return
    say = log.warning if notice.kind in _UNWELCOME | _ODD else log.info
    about = {"why": text} if notice.kind in _EXPLAINED else {"key": notice.text}
    say(f"peer-{notice.kind}", peer=notice.who, **about)


class LogReporter(SilentReporter):
    """A node's events as lines of its log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def started(self, lines: dict[str, str]) -> None:
        """Who this is; what there is to say in words, but for where the page is: its token may be there."""
        key, _, endpoint = lines["node"].partition(" at ")
        told = {name: value for name, value in lines.items() if name not in ("node", PAGE)}
        words = {name.replace(" ", "_"): value for name, value in told.items()}
        self._log.info("started", key=key[:KEY_DIGITS], listen=endpoint, **words)

    def sums(self, group: Withstands) -> None:
        """What sums of this size withstand."""
        self._log.info("sums", text=group.text, **group.facts)

    def training(self, round: int) -> None:
        """A round begins."""
        self._log.debug("training", round=round)

    def round_ended(self, record: Record, rounds: int) -> None:
        """The round in figures; the loss stays where the history is."""
        self._log.info(
            "round",
            round=record.round,
            rounds=rounds,
            outcome=record.outcome,
            reason=record.reason,
            participants=record.participants,
            missing=list(record.missing),
            accuracy=round(record.accuracy, 6),
            accuracy_of=record.accuracy_of,
            epsilon=record.epsilon,
            delta=record.delta,
            bytes_sent=record.bytes_sent,
            bytes_received=record.bytes_received,
            train_s=round(record.train_s, 6),
            aggregate_s=round(record.aggregate_s, 6),
            clipped=record.clipped,
            rolled_back=record.rolled_back is not None,
            without=list(record.without),
            base_digest=record.base_digest,
        )

    def caught_up(self, base: Base, how: str) -> None:
        """A base that the others agreed on was fetched."""
        digest = base.digest.hex()
        self._log.info("caught-up", generation=base.generation, base_digest=digest, how=how)

    def notice(self, notice: Notice, text: str) -> None:
        """Something about a peer."""
        log_notice(self._log, notice, text)

    def rolled_back(self, text: str) -> None:
        """Without the two losses that `text` holds."""
        self._log.warning("rolled-back")

    def warning(self, text: str) -> None:
        """In words."""
        self._log.warning("warning", text=text)

    def draining(self, within_s: float) -> None:
        """This node was told to end."""
        self._log.info("draining", within_s=within_s)

    def finished(self, summary: Summary) -> None:
        """The run in figures."""
        self._log.info(
            "finished" if summary.finished else "stopped",
            rounds=summary.rounds,
            aggregated=summary.aggregated,
            fallbacks=summary.fallbacks,
            accuracy=round(summary.accuracy, 6),
            accuracy_of=summary.accuracy_of,
            epsilon=summary.epsilon,
            delta=summary.delta,
            bytes_sent=summary.bytes_sent,
            bytes_received=summary.bytes_received,
            seconds=round(summary.seconds, 3),
            base_digest=summary.base_digest,
        )
