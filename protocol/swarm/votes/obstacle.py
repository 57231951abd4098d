"""Why no group forms that may make a strong base: the missing electors and what follows, as a value.

An elector counts as present if it is live, offers, and its vote is free. If the present electors are a
quorum, and enough peers for a group are here, there is no obstacle. Otherwise the obstacle gives the least
number of missing electors that would complete one, and who they are. No decision of a node depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from protocol.actions import Elector
from protocol.quorum.electorate import Electorate
from protocol.swarm.meeting import presence
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import Patience, PatienceLeft
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire.ids import RESIGNED
from protocol.wire.messages import Key

Name = Callable[[Key], str]


class Stage(Enum):
    """What follows from the obstacle."""

    NEVER = "no weak groups are allowed"
    ENDLESS = "the owner has this node wait for a quorum for ever"
    TOO_FEW = "those who are here are no group"
    WEAK = "weak bases are made meanwhile"
    PATIENT = "a weak group is allowed after a while"
    WILLING = "a weak group is allowed as soon as all in it are willing"
    VERSIONS = "no group can form without peers of another version"
    COHORT = "all sums have the members of the first one"
    COHORT_ENDLESS = "the same, and the owner has this node wait for them for ever"
    SAID = "a quorum of who is left, by what this node counts as gone"


class Whose(Enum):
    """What the missing ones are electors of."""

    NOBODY = "any peers suffice"
    NAMED = "owners named them for the first base"
    LAST = "they made the last base"
    STRONG = "they made the last strong base; a weak one came after it"
    OTHERS = "none: they speak another version of the protocol"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What prevents a strong base.

    `missing`: the least number of electors needed; 0 if none of the missing ones would help. `absent`: all
    missing electors; empty if any nodes suffice. `tie`: if exactly half suffice with the first elector, that
    one, and the number needed without it. `here`: how many peers that offer are here, this node included;
    `least`: how many make a group.
    """

    stage: Stage
    missing: int
    absent: tuple[Elector, ...] = ()
    whose: Whose = Whose.NOBODY
    tie: tuple[Elector, int] | None = None
    here: int = 0
    least: int = 0
    patience: PatienceLeft = field(default_factory=PatienceLeft)


def obstacle(
    settings: Settings,
    state: NodeState,
    members: Members,
    patience: Patience,
    name: Name,
    needed: tuple[str, ...],
    now: float,
) -> Obstacle | None:
    """The obstacle as this node sees it; None if there is none.

    `needed`: the endpoints of another version without which no group can form (protocol.swarm.votes.mixed):
    where weak groups go on without these, they are no obstacle. If only the tracker knows the electors, the
    obstacle is that too few peers are here. A node that makes no offers sees none of these.
    """
    found, electorate = None, state.electorate(settings)
    if not state.following and electorate is None:
        found = _too_few(settings.task.min_participants, len(members.candidates) + 1)
    elif not state.following and electorate is not None:
        found = _Look(settings, state, members, patience, name, electorate, now).found()
    if not needed or (found is not None and found.stage in (Stage.WEAK, Stage.WILLING)):
        return found
    absent = tuple(Elector(endpoint) for endpoint in needed)
    return Obstacle(Stage.VERSIONS, len(needed), absent, Whose.OTHERS)


def _too_few(least: int, here: int) -> Obstacle | None:
    """The obstacle that fewer peers are `here` than the `least` that make a group; None if enough are."""
    return None if here >= least else Obstacle(Stage.TOO_FEW, least - here, here=here, least=least)


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
        now: float,
    ) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._patience = patience
        self._name = name
        self._electorate = electorate
        self._now = now
        self._me = electorate.elector_at(settings.key.public, settings.endpoint)
        cohort, live = state.cohort(settings), members.announced(members.candidates)
        self._live = tuple(each for each in live if not cohort or each.key in cohort)
        self._lacks = cohort - {settings.key.public, *(each.key for each in self._live)}

    def found(self) -> Obstacle | None:
        electorate = self._electorate
        if self._lacks:
            absent = [one for one in electorate.members if one in self._lacks]
            is_endless = self._settings.timeouts.is_endless
            return self._of(Stage.COHORT_ENDLESS if is_endless else Stage.COHORT, len(absent), absent)
        voters = presence.voters(self._settings, self._state, electorate, self._live)
        resigned = presence.resigned(self._state, electorate, self._members) - voters
        gone = frozenset(self._patience.gone(self._now)) - voters
        if electorate.is_quorum(voters, resigned):
            nameless = _too_few(self._least, self._here)
            if nameless is None:
                return None
            found = self._missing(voters, resigned | gone)
            return replace(found, stage=Stage.TOO_FEW) if found.absent else nameless
        if electorate.is_quorum(voters, resigned | gone):
            said = [one for one in electorate.members if one in gone]
            return self._of(Stage.SAID, 0, said) if self._patience.failed_rounds else None
        if electorate.least:
            return self._of(self._stage, electorate.least - len(voters))
        return self._missing(voters, resigned | gone)

    def _missing(self, voters: frozenset[bytes], without: frozenset[bytes]) -> Obstacle:
        first = self._electorate.members[0]
        absent = [one for one in self._electorate.members if one not in voters and one not in without]
        fewest = self._fewest(voters, without, absent)
        without_first = self._fewest(voters, without, [*absent[1:], *absent[:1]])
        is_tied = first in absent and len(absent) > 1 and without_first > fewest
        tie = (self._elector(first), without_first) if is_tied else None
        return replace(self._of(self._stage, fewest, absent), tie=tie)

    def _fewest(self, voters: frozenset[bytes], without: frozenset[bytes], order: list[bytes]) -> int:
        """The least number, in this order, that makes a quorum and a group; 0 if all are too few."""
        counts = range(max(1, self._least - self._here), len(order) + 1)
        enough = (n for n in counts if self._electorate.is_quorum({*voters, *order[:n]}, without))
        return next(enough, 0)

    @property
    def _here(self) -> int:
        """How many peers that offer are here, this node included."""
        return len(self._live) + 1

    @property
    def _least(self) -> int:
        return self._state.least(self._settings)

    @property
    def _is_first(self) -> bool:
        return self._state.line.electors is None

    def _elector(self, elector: bytes) -> Elector:
        """An elector of a first base is known by its endpoint; its key, if known, serves for names."""
        endpoint = elector.decode("ascii", "replace")
        there = self._members.at(endpoint) if self._is_first else self._members.get(elector)
        is_me = elector == self._me
        is_bound = is_me or (there is not None and any(sid != RESIGNED for sid in there.open))
        if not self._is_first:
            return Elector(self._name(elector), elector, is_me, is_bound)
        key = self._settings.contacts.pins.get(endpoint) if there is None else there.key
        return Elector(endpoint, key, is_me, is_bound)

    def _of(self, stage: Stage, missing: int, absent: Iterable[bytes] = ()) -> Obstacle:
        whose = Whose.LAST if self._state.base.is_strong else Whose.STRONG
        return Obstacle(
            stage,
            missing,
            tuple(self._elector(one) for one in absent),
            Whose.NAMED if self._is_first else whose,
            here=self._here,
            least=self._least,
            patience=self._patience.left(self._now),
        )

    @property
    def _stage(self) -> Stage:
        if not self._settings.quorum.weak:
            return Stage.NEVER
        if self._here < self._least:
            return Stage.TOO_FEW
        if not self._state.base.is_strong:
            return Stage.WEAK
        if self._settings.timeouts.is_endless:
            return Stage.ENDLESS
        return Stage.WILLING if self._patience.is_willing(self._now) else Stage.PATIENT
