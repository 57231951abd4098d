"""Words for the notices and fatal errors that a node's machine reports to its owner."""

from __future__ import annotations

from node.task.parameters import describe_difference
from protocol.actions import Fatal, Note, Notice
from protocol.wire.messages import Parting


def notice_text(notice: Notice, parameters: str, name: str = "") -> str:
    """Returns a notice in words. `parameters` are this node's own; `name` is its owner's of a key in it."""
    who, text = notice.who, notice.text
    match notice.kind:
        case Note.JOINED | Note.LEFT:
            return _coming_or_going_text(notice, name)
        case Note.LOST:
            return f"{who} is gone: {text}"
        case Note.COORDINATOR:
            return f"coordinator {who}: {text}"
        case Note.UNREACHABLE:
            return f"{who} cannot be reached ({text}); trying again"
        case Note.REFUSED:
            return f"{who} refuses this node: {text}"
        case Note.NOT_ALLOWED | Note.WRONG_PIN:
            return f"{who} is not let in: {text}"
        case Note.SLOW | Note.BEHIND | Note.WITHHOLDS | Note.OTHER_VERSION:
            return f"{who} {'is ' * (notice.kind is Note.SLOW)}{text}"
        case Note.CLOCK:
            return f"{who}: {text}"
        case Note.WAITING | Note.WEAK | Note.QUORUM:
            return text
        case Note.EPOCH:
            return (
                "peers remember a later start with this key: this folder was restored from an older copy, or "
                "is a new one; what this node says from now on counts as later"
            )
        case Note.OTHER_SWARM:
            return f"{who} is in another swarm: {describe_difference(parameters, text)}"


def _coming_or_going_text(notice: Notice, name: str) -> str:
    """Returns who is here or has left, why, and whose key that is."""
    key = name or f"key {notice.text}"
    if notice.kind is Note.JOINED:
        return f"{notice.who} is here ({key})"
    why = parting_words(notice.parting)
    return f"{notice.who} has left{f': {why}' if why else ''} ({key})"


def parting_words(parting: Parting | None) -> str:
    """Returns why a peer left; empty if it did not say."""
    match parting:
        case None:
            return ""
        case Parting.ENDED:
            return "its last round is over"
        case Parting.STOPPED:
            return "its owner stopped it"
        case Parting.DIVERGED:
            return "its training diverged, to a loss or an update that is not finite"
        case Parting.FAILED:
            return "it cannot go on"


def fatal_text(fatal: Fatal, parameters: str) -> str:
    """Returns the line for a node that cannot take part."""
    if not fatal.parameters:
        return fatal.text
    return f"{fatal.text}: {describe_difference(parameters, fatal.parameters)}; make them equal"
