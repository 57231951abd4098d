"""Words for the notices and fatal errors that a node's machine reports to its owner."""

from __future__ import annotations

from pathlib import Path

from node.nicknames import Nicknames
from node.runtime.record.events import Noticed
from node.runtime.waiting import absent, waiting_text, who
from node.task.parameters import describe_difference
from protocol.actions import Fatal, Note, Notice, Waiting
from protocol.swarm.inspection import Picture
from protocol.swarm.votes.obstacle import Stage
from protocol.wire.messages import Parting


class Notices:
    """What the owner of a node is told: events of its machine in words, and what is new in its picture."""

    def __init__(self, picture: Picture, parameters: str, nicknames: Nicknames, out: Path) -> None:
        """`parameters`: this node's own; `out`: its folder."""
        self._last = picture
        self._parameters = parameters
        self._nicknames = nicknames
        self._out = out
        self._obstacle: tuple[str, Stage] | None = None
        """Whom the last notice of an obstacle named, and what followed from it."""

    def of(self, action: Notice | Waiting, picture: Picture) -> list[Noticed]:
        """The notices of an event, after those of what it changed."""
        changed = self.since(picture)
        if isinstance(action, Notice):
            return [*changed, Noticed(action, notice_text(action, self._parameters, self._nicknames))]
        if self._obstacle == self._standing and not action.is_anew:
            return changed
        self._obstacle = self._standing
        text = waiting_text(picture.obstacle, self._nicknames, self._out)
        return [*changed, _of_swarm(Note.WAITING, text)]

    def since(self, picture: Picture) -> list[Noticed]:
        """The notices of what is new since the last picture."""
        before, self._last = self._last, picture
        return self._of_base(picture) if picture.base != before.base else []

    def _of_base(self, picture: Picture) -> list[Noticed]:
        """A quorum made the new base, or it is weak."""
        model = f"the model of generation {picture.base.generation}"
        told, found = self._obstacle, picture.obstacle
        if picture.base.is_strong:
            self._obstacle = None
            text = f"a quorum is there: {model} counts for good"
            return [] if told is None else [_of_swarm(Note.QUORUM, text)]
        self._obstacle = self._standing or told or ("", Stage.WEAK)
        names = f" (missing: {absent(found, self._nicknames)})" if found and found.absent else ""
        text = f"{model} was agreed without a quorum of the electors{names}: it counts until they are back"
        return [] if told == self._obstacle else [_of_swarm(Note.WEAK, text)]

    @property
    def _standing(self) -> tuple[str, Stage] | None:
        found = self._last.obstacle
        return None if found is None else (who(found, self._nicknames), found.stage)


def _of_swarm(kind: Note, text: str) -> Noticed:
    return Noticed(Notice(kind, ""), text)


def notice_text(notice: Notice, parameters: str, nicknames: Nicknames) -> str:
    """Returns a notice in words; `parameters` are this node's own, `nicknames` its owner's."""
    who, text = notice.who, notice.text
    match notice.kind:
        case Note.JOINED | Note.LEFT:
            return _coming_or_going_text(notice, nicknames)
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
        case Note.EPOCH:
            return (
                "peers remember a later start with this key: this folder was restored from an older copy, or "
                "is a new one; what this node says from now on counts as later"
            )
        case Note.OTHER_SWARM:
            return f"{who} is in another swarm: {describe_difference(parameters, text)}"
        case _:
            return text


def _coming_or_going_text(notice: Notice, nicknames: Nicknames) -> str:
    """Returns who is here or has left, why, and whose key that is."""
    key = nicknames.of(notice.text) or f"key {notice.text}"
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
