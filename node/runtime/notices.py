"""Words for the notices and fatal errors that a node's machine reports to its owner."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from node.runtime.clocks import THIS_MACHINE, ClockNotices
from node.runtime.record.events import Noticed
from node.runtime.waiting import absent, waiting_text, who
from node.storage.nicknames import Nicknames
from node.storage.vouches import SPENT_UNKNOWN
from node.system.errors import one_line
from node.task.parameters import begun_ahead, describe_again, describe_difference, describe_lists
from protocol.actions import Fatal, Fault, News, Note, Notice, Strike, TakenIn, Waiting
from protocol.invitation.roster import folded
from protocol.invitation.words import key_words
from protocol.swarm.inspection import Picture
from protocol.swarm.lateness import Late, Slow
from protocol.swarm.votes.obstacle import Obstacle, Stage
from protocol.wire.endpoints import key_of
from protocol.wire.messages import Key, Parting, Vouch

MAX_BLAMING = 3
"""So many are named of those that leave this node out."""
MAX_TOLD = 1024
"""The subjects of so many notices are remembered, to tell each once."""
_FAULTS = {
    Fault.FAILED: "did not send {due}, and the sum failed",
    Fault.WAITED: "did not send {due}, and the sum waited for it",
    Fault.CONTRADICTS: "contradicts more than one other about {due}",
    Fault.IN_TWO: "is in two groups at once for one model",
}
_LEFT_OUT = "is left out of sums for a while: its messages came late or not at all"


class Notices:
    """What the owner of a node is told: events of its machine in words, and what is new in its picture."""

    def __init__(
        self,
        picture: Picture,
        parameters: str,
        nicknames: Nicknames,
        out: Path,
        named: Callable[[Key], str],
    ) -> None:
        """`parameters`: this node's own; `out`: its folder. `named`: returns where a key's node listens."""
        self._named = named
        self._last = picture
        self._parameters = parameters
        self._nicknames = nicknames
        self._out = out
        self._obstacle: tuple[str, Stage] | None = None
        """Whom the last notice of an obstacle named, and what followed from it."""
        self._led_by: Key | None = None
        """Who made the last base, if this node does not learn with it."""
        self._clocks = ClockNotices()
        self._told: OrderedDict[tuple[Note, bytes], None] = OrderedDict()
        self.is_left_behind = False
        """Whether a peer has begun another job, without members that were gone."""

    def of(self, action: News, picture: Picture) -> list[Noticed]:
        """The notices of an event, after those of what it changed."""
        return [*self.since(picture), *self._of(action)]

    def _of(self, action: News) -> list[Noticed]:
        match action:
            case Notice():
                is_of_key = action.kind in (Note.JOINED, Note.LEFT)
                name = self._nicknames.of(action.text) if is_of_key else ""
                called = self._called_at(action.who)
                text = notice_text(replace(action, who=called), self._parameters, name)
                told = Noticed(action, text, name)
                others = action.text if action.kind is Note.OTHER_SWARM else ""
                self.is_left_behind |= begun_ahead(self._parameters, others) > 0
                return [] if self._is_told(action) else [told]
            case Strike(key):
                return [self._of_peer(key, strike_words(action))]
            case TakenIn(key, is_time_over):
                why = "its time is over" if is_time_over else "it has taken part in a sum to its end"
                return [self._of_peer(key, f"is no longer left out: {why}")]
            case Waiting(is_anew):
                before, self._obstacle = self._obstacle, self._key_of(self._last.hindered)
                if before == self._obstacle and not is_anew:
                    return []
                text = waiting_text(self._last.hindered, self._nicknames, None)  # unless it still stands:
                text = waiting_text(self._last.obstacle, self._nicknames, self._out) or text
                return [_of_swarm(Note.WAITING, text)]

    def _is_told(self, notice: Notice) -> bool:
        """Whether the owner knows it already. The oldest are forgotten: strangers come without number."""
        about = notice.kind, notice.subject
        if about in self._told:
            return True
        if notice.subject:
            self._told[about] = None
        if len(self._told) > MAX_TOLD:
            self._told.popitem(last=False)
        return False

    def since(self, picture: Picture) -> list[Noticed]:
        """The notices of what is new since the last picture."""
        before, self._last = self._last, picture
        if picture == before:
            return []
        were_late = {(type(late), late.key) for late in before.late}
        late = [_of_late(each) for each in picture.late if (type(each), each.key) not in were_late]
        made = [*self._of_base(picture), *self._of_leader(picture)] if picture.base != before.base else []
        clocks = self._clocks.since(picture.set_s, picture.clocks)
        out = [] if before.out_by or not picture.out_by else [self._of_blame(picture.out_by)]
        return [*clocks, *late, *made, *out]

    def _of_base(self, picture: Picture) -> list[Noticed]:
        """A quorum made the new base, or it is weak."""
        model = f"the model of generation {picture.base.generation}"
        told, found = self._obstacle, picture.obstacle
        if picture.base.is_strong:
            self._obstacle = None
            text = f"a quorum is there: {model} counts for good"
            return [] if told is None else [_of_swarm(Note.QUORUM, text)]
        self._obstacle = self._key_of(found) or told or ("", Stage.WEAK)
        names = f" (missing: {absent(found, self._nicknames)})" if found and found.absent else ""
        text = f"{model} was agreed without a quorum of the electors{names}: it counts until they are back"
        return [] if told == self._obstacle else [_of_swarm(Note.WEAK, text)]

    def _of_leader(self, picture: Picture) -> list[Noticed]:
        """Tells once whose models this node only follows, until others coordinate."""
        before, self._led_by = self._led_by, picture.led_by
        if picture.led_by in (None, before):
            return []
        who = self._called(picture.led_by)
        text = f"{who} coordinates the others, and this node does not learn with it: it follows their models"
        return [_of_swarm(Note.FOLLOWS, f"{text}, and learns with whoever coordinates next")]

    def _of_blame(self, keys: tuple[Key, ...]) -> Noticed:
        names = ", ".join(map(self._called, keys[:MAX_BLAMING])) + ", ..." * (len(keys) > MAX_BLAMING)
        text = f"{_LEFT_OUT}, say {names}; is its network slow or cut?"
        return Noticed(Notice(Note.WITHHOLDS, ""), f"{THIS_MACHINE} {text}")

    def _of_peer(self, key: Key, text: str) -> Noticed:
        who = self._called(key)
        return Noticed(Notice(Note.WITHHOLDS, who), f"{who} {text}")

    def _called(self, key: Key) -> str:
        return self._nicknames.names.get(key) or self._named(key)

    def _called_at(self, endpoint: str) -> str:
        """Returns the owner's name of the key for which an endpoint stands; else the endpoint."""
        return self._nicknames.names.get(key_of(endpoint) or b"", endpoint)

    def of_fatal(self, fatal: Fatal) -> str:
        """The line for a node that cannot take part."""
        if not fatal.parameters:
            return fatal.text
        others = describe_lists(self._called_at(fatal.who), self._parameters, fatal.parameters)
        difference = describe_difference(self._parameters, fatal.parameters)
        return others or f"{fatal.text}: {difference}; make them equal"

    def _key_of(self, found: Obstacle | None) -> tuple[str, Stage] | None:
        return None if found is None else (who(found, self._nicknames), found.stage)


def vouch_text(vouch: Vouch, nicknames: Nicknames, folder: Path) -> str:
    """Returns the line about a newcomer to an invited swarm, for the owner who decides."""
    sponsor = nicknames.called(vouch.member.hex())
    whom = f"{vouch.name} ({key_words(vouch.key)})"
    says = f"{sponsor} vouches for a newcomer, {whom}; if you want to learn with it:"
    if folded(vouch.name) in map(folded, nicknames.names.values()):
        says = f"{sponsor} vouches for a new key of {whom}; {SPENT_UNKNOWN}; if you want to learn with it:"
    return f'{says} murmuration members {one_line(str(folder))} --accept "{vouch.name}"'


def _of_late(late: Late) -> Noticed:
    kind, is_ = (Note.SLOW, "is ") if isinstance(late, Slow) else (Note.BEHIND, "")
    return Noticed(Notice(kind, late.endpoint), f"{late.endpoint} {is_}{late_words(late)}")


def strike_words(strike: Strike) -> str:
    """Returns what a member did, and for how long it is left out."""
    what = _FAULTS[strike.fault].format(due=strike.due)
    next_time = "of the next sum, and the next time " if strike.is_first else ""
    return f"{what}: left out {next_time}for {_rounds(strike.rounds)}"


def strikes_words(strikes: int, rounds_out: int) -> str:
    """Returns what this node holds against a member; empty if nothing."""
    if rounds_out:
        return f"withholds: left out for {_rounds(rounds_out)}"
    return f"{strikes} sum{'s' * (strikes > 1)} failed or waited for its messages" if strikes else ""


def _rounds(count: int) -> str:
    return f"{count} round{'s' * (count > 1)}"


def late_words(late: Late) -> str:
    """Returns in what a peer is late."""
    if isinstance(late, Slow):
        return f"slow: the last {late.sums} sums waited {late.mean_s:.1f} s for it"
    return f"fell behind: its last sum is {late.generation}, this node's {late.mine}"


def _of_swarm(kind: Note, text: str) -> Noticed:
    return Noticed(Notice(kind, ""), text)


def notice_text(notice: Notice, parameters: str, name: str = "") -> str:
    """Returns a notice in words. `parameters` are this node's own; `name` is its owner's of a key in it."""
    who, text = notice.who, notice.text
    key = name if name not in ("", who) else f"key {text}"
    match notice.kind:
        case Note.JOINED:
            return f"{who} is here ({key})"
        case Note.LEFT:
            why = parting_words(notice.parting)
            return f"{who} has left{f': {why}' if why else ''} ({key})"
        case Note.LOST:
            return f"{who} is gone: {text or 'fell silent'}"
        case Note.COORDINATOR:
            return f"coordinator {who}: {text or 'does not answer; it is asked again'}"
        case Note.UNREACHABLE:
            return f"{who} cannot be reached ({text}); trying again"
        case Note.REFUSED:
            return f"{who} refuses this node: {text}"
        case Note.NOT_ALLOWED | Note.WRONG_PIN:
            return f"{who} is not let in: {text}"
        case Note.OTHER_VERSION:
            return f"{who} {text}"
        case Note.EPOCH:
            return (
                "peers remember a later start with this key: this folder was restored from an older copy, or "
                "is a new one; what this node says from now on counts as later"
            )
        case Note.OTHER_SWARM:
            others = describe_lists(who, parameters, text) or describe_again(who, parameters, text)
            return others or f"{who} is in another swarm: {describe_difference(parameters, text)}"
        case Note.STAYS:
            whom = f"{who}, which lacks the last model" if who else "members that lack the last model"
            return f"the run is over here; this node stays up to {text} min more for {whom}; Ctrl-C ends it"
        case _:
            return text


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
