"""Why no group forms that may make a strong base: the missing electors and what follows. For people.

An elector counts as present if it is live, offers, and its vote is free. If the present electors are a
quorum, and enough peers for a group are here, there is no obstacle. Otherwise the obstacle gives the least
number of missing electors that would complete one, and their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from protocol.actions import Action, Note, Notice
from protocol.quorum.electorate import Electorate
from protocol.swarm.meeting import presence
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import PATIENT_ROUNDS, PATIENT_S, Patience
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire.ids import RESIGNED
from protocol.wire.messages import Announce, Base, Key

MAX_NAMED = 6
TOLD_AFTER_S = 10.0
"""An offer waits this long for a group before the owner gets a notice of the missing electors."""

Name = Callable[[Key], str]
Needed = Callable[[float], tuple[str, ...]]
"""Returns the endpoints of another version without which no group can form (protocol.swarm.votes.mixed)."""
_WAITS_FOR_UPGRADE = (
    "no group can form without them: upgrade all nodes of the swarm together; no round is spent meanwhile"
)


class Stage(Enum):
    """What follows from the obstacle."""

    NEVER = "no weak groups are allowed"
    TOO_FEW = "those who are here are no group"
    WEAK = "weak bases are made meanwhile"
    PATIENT = "a weak group is allowed after a while"
    WILLING = "a weak group is allowed as soon as all in it are willing"
    VERSIONS = "no group can form without peers of another version"
    SAID = "a quorum of who is left, by what this node counts as gone"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What prevents a strong base.

    `missing`: the least number of electors needed; 0 if none of the missing ones would help. `names`: those
    of all missing electors; empty if any nodes suffice. `whose`: what they are electors of. `tie`: if exactly
    half suffice with the first elector, its name, and the number needed without it.
    """

    missing: int
    names: tuple[str, ...]
    whose: str
    stage: Stage
    then: str
    tie: tuple[str, int] | None = None
    can_be_gone: bool = False
    """Whether it helps if owners declare the missing electors gone for good."""

    @property
    def who(self) -> str:
        """Whom the node waits for, in words."""
        if not self.names:
            return f"{_peers(self.missing)} more" if self.missing else f"somebody {self.whose}"
        return f"{self.absent}, {self.whose}"

    @property
    def absent(self) -> str:
        """The missing electors, and how many of them would suffice, in words."""
        shown = ", ".join(self.names[:MAX_NAMED])
        rest = len(self.names) - MAX_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        some = f"{self.missing} of: " if 0 < self.missing < len(self.names) else ""
        tie = f" ({self.tie[0]} among them, else {self.tie[1]})" if self.tie else ""
        return f"{some}{shown}{more}{tie}"

    @property
    def text(self) -> str:
        """The whole obstacle in one line."""
        if self.stage is Stage.SAID:
            return f"{', '.join(self.names)} count as gone for good here; {self.then}"
        return f"waiting for {self.who}; {self.then}"

    @property
    def nameless(self) -> str:
        """The same line without any peer's name, fit for anybody who asks."""
        if self.stage is Stage.SAID:
            return f"{_peers(len(self.names))} count as gone for good here; {self.then}"
        if not self.names:
            return self.text
        of = f" of {len(self.names)}" if len(self.names) > 1 else ""
        return f"waiting for {_peers(self.missing, of)}, {self.whose}; {self.then}"


def _peers(count: int, of: str = "") -> str:
    return f"{count}{of} peer{'' if count == 1 and not of else 's'}"


def obstacle(
    settings: Settings, state: NodeState, members: Members, patience: Patience, name: Name, now: float
) -> Obstacle | None:
    """The obstacle as this node sees it; None if there is none, or if this node makes no offers.

    If only the tracker knows the electors, the obstacle is that too few peers are here, without names.
    """
    if state.following:
        return None
    electorate = state.electorate(settings)
    if electorate is None:
        here = len(members.candidates(state.round)) + 1
        return _too_few_here(settings.min_participants, here)
    return _Look(settings, state, members, patience, name, electorate).found(now)


def _versions(found: Obstacle | None, needed: tuple[str, ...]) -> Obstacle | None:
    """The obstacle, if peers of another version are `needed`, except where weak groups form without them."""
    goes_on = found is not None and found.stage in (Stage.WEAK, Stage.WILLING)
    if goes_on or not needed:
        return found
    whose = "of another version of the protocol"
    return Obstacle(len(needed), needed, whose, Stage.VERSIONS, _WAITS_FOR_UPGRADE)


def _too_few_here(least: int, here: int) -> Obstacle | None:
    """The obstacle that fewer peers are `here` than the `least` that make a group; None if enough are."""
    if here >= least:
        return None
    return Obstacle(least - here, (), "", Stage.TOO_FEW, _too_few(least, here))


def _too_few(least: int, here: int) -> str:
    is_here = "1 is" if here == 1 else f"{here} are"
    return f"a model takes at least {least} peers, and {is_here} here"


class _Look:
    """One evaluation of the electors present."""

    def __init__(
        self,
        settings: Settings,
        state: NodeState,
        members: Members,
        patience: Patience,
        name: Name,
        electorate: Electorate,
    ) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._patience = patience
        self._name = name
        self._electorate = electorate
        self._me = electorate.elector_at(settings.key.public, settings.endpoint)
        keys = members.candidates(state.round)
        self._live = presence.announced(members, keys)

    def found(self, now: float) -> Obstacle | None:
        electorate = self._electorate
        voters = presence.voters(self._settings, self._state, electorate, self._live)
        resigned = presence.resigned(self._state, electorate, self._members) - voters
        gone = frozenset(self._patience.gone(now)) - voters
        if electorate.is_quorum(voters, resigned):
            return self._too_few_for_a_group(voters, resigned | gone, now)
        if electorate.is_quorum(voters, resigned | gone):
            return self._said(gone) if self._patience.failed_rounds else None
        if electorate.least:
            stage, then = self._outlook(now)
            return Obstacle(electorate.least - len(voters), (), self._whose, stage, then)
        return self._missing(voters, resigned | gone, now)

    def _missing(self, voters: frozenset[bytes], without: frozenset[bytes], now: float) -> Obstacle:
        stage, then = self._outlook(now)
        first = self._electorate.members[0]
        absent = [one for one in self._electorate.members if one not in voters and one not in without]
        fewest = self._fewest(voters, without, absent)
        without_first = self._fewest(voters, without, [*absent[1:], *absent[:1]])
        is_tied = first in absent and len(absent) > 1 and without_first > fewest
        return Obstacle(
            fewest,
            tuple(self._named(one) for one in absent),
            self._whose,
            stage,
            then,
            (self._named(first), without_first) if is_tied else None,
            stage is not Stage.TOO_FEW and bool(absent),
        )

    def _too_few_for_a_group(
        self, voters: frozenset[bytes], without: frozenset[bytes], now: float
    ) -> Obstacle | None:
        """The obstacle where a quorum is here, but no group; None where a group is."""
        nameless = _too_few_here(self._least, self._here)
        if nameless is None:
            return None
        found = self._missing(voters, without, now)
        if not found.names:
            return nameless
        return replace(found, stage=nameless.stage, then=nameless.then, can_be_gone=False)

    def _fewest(self, voters: frozenset[bytes], without: frozenset[bytes], order: list[bytes]) -> int:
        """The least number, in this order, that makes a quorum and a group; 0 if all are too few."""
        counts = range(max(1, self._least - self._here), len(order) + 1)
        enough = (n for n in counts if self._electorate.is_quorum({*voters, *order[:n]}, without))
        return next(enough, 0)

    def _said(self, gone: frozenset[bytes]) -> Obstacle:
        names = tuple(self._named(one) for one in self._electorate.members if one in gone)
        then = "a model is made without them once all nodes of a group count them so"
        return Obstacle(0, names, self._whose, Stage.SAID, then)

    @property
    def _here(self) -> int:
        """How many peers that offer are here, this node included."""
        return len(self._live) + 1

    @property
    def _least(self) -> int:
        return self._settings.min_participants

    @property
    def _is_first(self) -> bool:
        return self._state.line.electors is None

    @property
    def _whose(self) -> str:
        if self._is_first:
            return "who were named for the first model"
        return f"who made the last model{'' if self._state.base.is_strong else ' with a quorum'}"

    def _named(self, elector: bytes) -> str:
        """The name of an elector for people."""
        name = self._named_at(elector.decode("ascii", "replace")) if self._is_first else self._name(elector)
        if elector == self._me:
            return "this node (whose vote is bound)"
        return f"{name} (whose vote is bound)" if _is_bound(self._announced(elector)) else name

    def _named_at(self, endpoint: str) -> str:
        """The name of an elector that is known by its endpoint: the owner's for the key there, if known."""
        there = self._members.at(endpoint)
        key = self._settings.pins.get(endpoint) if there is None else there.key
        nickname = self._settings.nicknames.get(key or b"")
        return f"{nickname} ({endpoint})" if nickname else endpoint

    def _announced(self, elector: bytes) -> Announce | None:
        if self._is_first:
            return self._members.at(elector.decode("ascii", "replace"))
        return self._members.get(elector)

    def _outlook(self, now: float) -> tuple[Stage, str]:
        """The stage, and what follows in words."""
        stage, then = self._stage(now)
        after_s = self._settings.amnesty_s
        if after_s is None or stage is Stage.TOO_FEW:
            return stage, then
        silent = "without a quorum those that are silent count as gone for good (aggregation.amnesty_s)"
        return stage, f"{then}; after {after_s:g} s {silent}"

    def _stage(self, now: float) -> tuple[Stage, str]:
        settings, patience = self._settings, self._patience
        if not settings.weak:
            return Stage.NEVER, "nothing goes on without them (aggregation.weak = false)"
        if self._here < self._least:
            return Stage.TOO_FEW, _too_few(self._least, self._here)
        if not self._state.base.is_strong:
            return Stage.WEAK, "until they are back, models are agreed without them"
        if patience.is_willing(now):
            return Stage.WILLING, "goes on without them as soon as the others here have waited as long"
        rounds = PATIENT_ROUNDS - patience.failed_rounds
        if rounds > 0:
            several = "" if rounds == 1 else "s"
            wait = f"wait{several} of {settings.group_timeout_s:g} s"
            more = wait if patience.waits(now) else f"failed round{several}"
            return Stage.PATIENT, f"goes on without them after {rounds} more {more}"
        return Stage.PATIENT, f"goes on without them {PATIENT_S:.0f} s after the first failed round"


def _is_bound(announce: Announce | None) -> bool:
    return announce is not None and any(sid != RESIGNED for sid in announce.open)


class Watch:
    """The obstacle as of the last look, and which of its forms the owner has been notified of."""

    def __init__(
        self,
        settings: Settings,
        state: NodeState,
        members: Members,
        patience: Patience,
        name: Name,
        needed: Needed,
    ) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._patience = patience
        self._name = name
        self._needed = needed
        self.obstacle: Obstacle | None = None
        """Replaced, never changed in place: any thread may read it at any time."""
        self._told: tuple[str, Stage] | None = None

    def pause(self) -> None:
        """Clear the obstacle while this node joins, and after its last round."""
        self.obstacle = None

    def look(self, now: float) -> None:
        """Evaluate the obstacle anew."""
        found = obstacle(
            settings=self._settings,
            state=self._state,
            members=self._members,
            patience=self._patience,
            name=self._name,
            now=now,
        )
        self.obstacle = _versions(found, self._needed(now))

    def tell(self) -> list[Action]:
        """A notice of the obstacle, unless the last notice was the same."""
        return [] if self._told == self._key else self.remind()

    def remind(self) -> list[Action]:
        """A notice of the obstacle, even if the last notice was the same."""
        if self.obstacle is None:
            return []
        self._told = self._key
        return [Notice(Note.WAITING, "", self.obstacle.text)]

    @property
    def _key(self) -> tuple[str, Stage] | None:
        found = self.obstacle
        return None if found is None else (found.who, found.stage)

    def adopted(self, base: Base, now: float) -> list[Action]:
        """Notices after a new base: a quorum made it, or it is weak."""
        self.look(now)
        told, self._told = self._told, None if base.is_strong else (self._key or self._told)
        model = f"the model of generation {base.generation}"
        if base.is_strong:
            return [Notice(Note.QUORUM, "", f"a quorum is there: {model} counts for good")] if told else []
        if told is not None and told == self._told:
            return []
        self._told = self._told or ("", Stage.WEAK)
        names = f" (missing: {self.obstacle.absent})" if self.obstacle and self.obstacle.names else ""
        text = f"{model} was agreed without a quorum of the electors{names}: it counts until they are back"
        return [Notice(Note.WEAK, "", text)]


def names_of(electors: Iterable[bytes], are_keys: bool, name: Name) -> tuple[str, ...]:
    """The names of electors for people; electors that owners named for a first base are endpoints."""
    return tuple(name(one) if are_keys else one.decode("ascii", "replace") for one in sorted(electors))
