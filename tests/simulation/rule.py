"""The rule of electors and binding votes alone, on small ints: no keys, no messages, and very many plans.

A swarm of at most six: bit p of a set is peer p, and a lower number is a lower key. A step is a round: a peer
that is up and can talk hears the others, takes a better base and joins a group; members of sessions release,
complete, give up or die. A seeded generator decides what a network would, with more freedom than a real one:
any READYs may be missing from a group, any releases may reach anybody or nobody, a session may stand still
while its other members go on, a weak group may form before patience is over, and a peer may take any base of
a higher rank at any time. Certain steps always happen: after two failed rounds a peer takes the highest base
in reach, and without faults a group forms and completes.

A restart keeps a peer's base and the one before, its open votes with its own releases, and whether it follows
and has resigned; everything else is lost.

Left out: who knows whom, so that a weak group needs three willing peers and no majority of the known ones;
lines and certificates, so that every base can be proved; amnesty; a tracker.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from protocol.aggregation.masked.thresholds import LEAST_MEMBERS, tolerance
from protocol.swarm.meeting.patience import PATIENT_ROUNDS, TRUSTING_ROUNDS

MOST = 6
EVERYBODY = (1 << MOST) - 1
CALM_ROUNDS = 16
"""Enough for what the rule promises: five failed rounds, two more, a weak and a strong base, and a margin."""
LEAST = 3
NONE = -1


class Fault(StrEnum):
    """Faults that can be planted in the rule, to show that the checks notice them."""

    UNBOUND = "votes bind nobody"
    HALVES = "exactly half suffices on both sides"
    WEAK_ELECTS = "a weak group's members are electors"
    FORGETFUL = "votes are forgotten at a restart"
    BASELESS = "the base that an open vote builds on is not kept"


class Broken(AssertionError):
    """The rule did not hold; the text names the seed."""


def is_quorum(electors: int, voters: int, without: int) -> bool:
    """Applies quorum.electorate's rule to sets of bits: a majority of the rest, or half with the first."""
    left = electors & ~without
    votes, first = voters & left, electors & -electors
    missing = left.bit_count() - 2 * votes.bit_count()
    return missing < 0 or (missing == 0 and bool(votes & first))


def _table(*, halves: bool) -> bytes:
    """Tabulates is_quorum over all (electors, voters, without); `halves`: any half is enough."""
    sets = range(1 << MOST)
    half = [[2 * (voters & left).bit_count() >= left.bit_count() > 0 for left in sets] for voters in sets]
    return bytes(
        half[voters][electors & ~without] if halves else is_quorum(electors, voters, without)
        for electors in sets
        for voters in sets
        for without in sets
    )


_TABLES: dict[bool, bytes] = {}


def _quorums(*, halves: bool) -> bytes:
    if halves not in _TABLES:
        _TABLES[halves] = _table(halves=halves)
    return _TABLES[halves]


@dataclass(frozen=True)
class Era:
    """Rounds in which the same peers are up, and those in `side` cannot talk with the others.

    `follows`: peers that follow from now on.
    """

    rounds: int
    up: int
    side: int = 0
    follows: int = 0


@dataclass(frozen=True)
class Churn:
    """Which peers are up when; `masked`: whether t releases suffice, or every member's sum is needed.

    The last era is calm: its only faults are absent peers.
    """

    peers: int
    eras: tuple[Era, ...]
    masked: bool
    is_rough: bool = True
    """Whether sessions break and READYs come late, in all eras but the last."""


class Trouble(StrEnum):
    """What happens in a plan."""

    LATE = "late"
    CRASH = "crash"
    CUT = "cut"
    LONG = "long"
    LEAVE = "leave"
    MIXED = "mixed"


LONG_ROUNDS = (50, 200)


def churn_of(seed: int, trouble: Trouble) -> Churn:
    """Draws a plan with three to six peers and this trouble from a seed."""
    rng = random.Random(seed * 6007 + 11)
    peers = rng.choice((3, 4, 4, 5, 5, 5, 6))
    everybody = (1 << peers) - 1
    some = rng.getrandbits
    eras: list[Era] = []
    up = everybody if trouble is not Trouble.LATE else everybody & (some(peers) | some(peers))
    gone = 0
    for _ in range(rng.randint(2, 4)):
        side = follows = 0
        match trouble:
            case Trouble.LATE:
                up |= some(peers)
            case Trouble.CRASH:
                up = some(peers) | some(peers)
            case Trouble.CUT | Trouble.LONG:
                side = some(peers)
            case Trouble.LEAVE:
                gone |= some(peers) & some(peers) & some(peers)
                up = everybody & ~gone
            case Trouble.MIXED:
                up = some(peers) | some(peers)
                side = some(peers) if some(1) else 0
                follows = some(peers) & some(peers) & some(peers) if not some(2) else 0
                gone |= some(peers) & some(peers) & some(peers) & some(peers)
                up &= ~gone
        longest = LONG_ROUNDS if trouble is Trouble.LONG else (1, 5)
        eras.append(Era(rng.randint(*longest), up, side, follows))
    last = (everybody if some(1) else up | some(peers)) & ~gone
    return Churn(peers, (*eras, Era(CALM_ROUNDS, last)), masked=bool(some(2)))


@dataclass
class Sitting:
    """One session: its remaining members, those who released, and whose releases each member has."""

    members: int
    parent: int
    voters: int
    electors: int
    without: int
    is_strong: bool
    threshold: int
    anchor: int
    """The generation of the parent's anchor."""
    inside: int
    included: int
    released: int = 0
    result: int = NONE


@dataclass(frozen=True)
class Found:
    """The result of a plan."""

    strong: int
    weak: int
    forks: int
    lost: int
    progress: tuple[bool, ...]
    """Whether each era made a strong base."""
    ends: int
    """How many different bases the peers that are up hold at the end."""


THRESHOLDS = [
    tolerance(members, None).threshold if members >= LEAST_MEMBERS else members for members in range(MOST + 1)
]


class Swarm:
    """The peers of one plan and their history. Lists are indexed by peer, by base, or by session."""

    def __init__(self, churn: Churn, seed: int, fault: Fault | None = None) -> None:
        peers = churn.peers
        self._churn = churn
        self._seed = seed
        self._fault = fault
        self._quorums = _quorums(halves=fault is Fault.HALVES)
        self._random = random.Random(seed)
        self._bits = self._random.getrandbits
        self._calm = False
        # by peer
        self._base = [0] * peers
        self._before = [0] * peers
        self._open = [0] * peers
        """Bit s: its vote in session s is open."""
        self._failed = [0] * peers
        self._participant = [NONE] * peers
        self._resigned = [NONE] * peers
        """The anchor on which it resigned."""
        self._got: list[dict[int, int]] = [{} for _ in range(peers)]
        self._out: list[dict[int, int]] = [{} for _ in range(peers)]
        """By session: the members that it saw leave without a release."""
        self._up = 0
        self._follows = 0
        # by base
        self._parent = [NONE]
        self._generation = [0]
        self._anchor = [0]
        self._electors = [(1 << peers) - 1]
        self._strong = [True]
        self._size = [0]
        self._rank = [0]
        self._tip = 0
        """The newest strong base that a peer stored."""
        self._sittings: list[Sitting] = []
        self._running: list[int] = []

    # -- the plan ----------------------------------------------------------------------------------

    def run(self) -> Found:
        """Runs all eras; raises Broken if a strong base forks, or promised progress fails to come."""
        progress: list[bool] = []
        last = len(self._churn.eras) - 1
        for number, era in enumerate(self._churn.eras):
            tip = self._tip
            self._calm = number == last or not self._churn.is_rough
            self._begin(era)
            if number == last:
                self._must_end(era)
            else:
                for _ in range(era.rounds):
                    self._round(era)
            progress.append(self._tip != tip)
        ends = {self._base[peer] for peer in _each(self._up)}
        strong = sum(self._strong) - 1
        children = [parent for parent in self._parent if parent != NONE]
        forks = len(children) - len(set(children))
        kept = self._line(max(self._base, key=lambda base: self._rank[base]))
        lost = sum(self._strong[base] and base not in kept for base in range(len(self._strong)))
        return Found(strong, len(self._strong) - 1 - strong, forks, lost, tuple(progress), len(ends))

    def _must_end(self, era: Era) -> None:
        """Runs the last era: if a quorum of free electors is up, a strong base must be made."""
        tip = self._tip
        self._round(era)
        is_due = self._tip == tip and self._is_due()
        for _ in range(era.rounds - 1):
            if self._tip != tip and len({self._base[peer] for peer in _each(self._up)}) == 1:
                return
            self._round(era)
        if is_due and self._tip == tip:
            self._broken("a quorum of free electors is up, and makes no strong base")

    def _is_due(self) -> bool:
        up, resigned = self._up & ~self._follows, 0
        newest = max(
            (self._base[peer] for peer in _each(self._up)), key=lambda base: self._rank[base], default=0
        )
        anchor = self._anchor[newest]
        voters = 0
        for peer in _each(self._up):
            if self._resigned[peer] == anchor:
                resigned |= 1 << peer
            if all(not self._sittings[sid].members & ~self._up for sid in _each(self._open[peer])):
                voters |= 1 << peer
        electors = self._electors[anchor]
        return up.bit_count() >= LEAST and is_quorum(electors, voters & up & electors, resigned)

    def _broken(self, what: str) -> None:
        raise Broken(f"seed {self._seed}: {what}")

    def _begin(self, era: Era) -> None:
        for peer in _each(self._up & ~era.up):
            self._die(peer)
        self._up = era.up
        self._follows |= era.follows

    def _die(self, peer: int) -> None:
        """Kills peers: they lose what is not durable."""
        bit = 1 << peer
        if self._participant[peer] != NONE:
            self._sittings[self._participant[peer]].inside &= ~bit
            self._participant[peer] = NONE
        if self._fault is Fault.FORGETFUL:
            self._open[peer] = 0
        self._got[peer] = dict.fromkeys(_each(self._open[peer]), bit)
        self._out[peer] = {}
        self._failed[peer] = 0

    def _round(self, era: Era) -> None:
        up, bits, calm = self._up, self._bits, self._calm
        for side in (up & era.side, up & ~era.side):
            if side:
                heard = side if calm else side & (bits(MOST) | bits(MOST))
                for peer in _each(heard):
                    self._hear(peer, heard)
                self._meet(side, heard)
        for sid in self._running:
            self._sit(sid, era.side)
        self._running = [sid for sid in self._running if self._sittings[sid].inside]
        if not calm and not bits(3):
            self._restart(bits(MOST) & bits(MOST) & up)

    def _restart(self, peers: int) -> None:
        """Restarts these peers at once."""
        for peer in _each(peers):
            self._die(peer)

    # -- what a peer does on its own ---------------------------------------------------------------

    def _hear(self, peer: int, heard: int) -> None:
        """A peer hears these others: their releases for its open votes, and their bases."""
        if self._open[peer]:
            for sid in _each(self._open[peer]):
                self._reconsider(peer, sid, heard)
        if self._participant[peer] == NONE:
            self._take_better(peer, heard)
            if self._follows >> peer & 1 and not self._open[peer]:
                anchor = self._anchor[self._base[peer]]
                if self._electors[anchor] >> peer & 1:
                    self._resigned[peer] = anchor

    def _reconsider(self, peer: int, sid: int, heard: int) -> None:
        """Counts the others' releases of the same session, or learns that they have left it."""
        sitting, bit = self._sittings[sid], 1 << sid
        got, out = self._got[peer].get(sid, 0), self._out[peer].get(sid, 0)
        for other in _each(sitting.members & heard & ~(1 << peer)):
            if self._open[other] & bit:
                got |= 1 << other
            elif self._participant[other] != sid and self._anchor_number(other) <= sitting.anchor:
                out |= 1 << other
        self._got[peer][sid], self._out[peer][sid] = got, out
        has_base = self._fault is not Fault.BASELESS or sitting.parent in (
            self._base[peer],
            self._before[peer],
        )
        if has_base and self._participant[peer] == NONE and self._opens(sitting, got):
            self._complete(peer, sid)
        elif not self._opens(sitting, sitting.members & ~out):
            self._open[peer] &= ~bit

    def _anchor_number(self, peer: int) -> int:
        return self._generation[self._anchor[self._base[peer]]]

    def _opens(self, sitting: Sitting, released: int) -> bool:
        """Returns whether these releases give a result."""
        if released.bit_count() < sitting.threshold:
            return False
        index = sitting.electors << 2 * MOST | (released & sitting.voters) << MOST | sitting.without
        return not sitting.is_strong or bool(self._quorums[index])

    def _take_better(self, peer: int, heard: int) -> None:
        best = mine = self._base[peer]
        for other in _each(heard):
            if self._rank[self._base[other]] > self._rank[best]:
                best = self._base[other]
        if best == mine:
            return
        must = self._failed[peer] >= TRUSTING_ROUNDS
        if must or not self._bits(2) or 2 * self._showing(best, heard) > self._size[best]:
            self._store(peer, best)

    def _showing(self, base: int, heard: int) -> int:
        return sum(self._base[other] == base for other in _each(heard))

    def _store(self, peer: int, base: int) -> None:
        mine = self._base[peer]
        if self._rank[base] <= self._rank[mine]:
            self._broken(f"peer {peer} takes a base of lower rank")
        if self._anchor[base] != self._anchor[mine]:
            self._resigned[peer] = NONE
        self._before[peer], self._base[peer], self._failed[peer] = mine, base, 0
        number = self._anchor_number(peer)
        for sid in _each(self._open[peer]):
            if self._sittings[sid].anchor < number:
                self._open[peer] &= ~(1 << sid)
        if self._strong[base] and base != self._tip and base not in self._line(self._tip):
            if self._tip not in self._line(base):
                self._broken(f"peer {peer} stores a strong base beside another")
            self._tip = base

    def _line(self, base: int) -> set[int]:
        """Returns a base and all its ancestors."""
        line = set[int]()
        while base != NONE:
            line.add(base)
            base = self._parent[base]
        return line

    def _fail(self, peer: int) -> None:
        self._failed[peer] += 1

    # -- groups ------------------------------------------------------------------------------------

    def _meet(self, side: int, heard: int) -> None:
        """Forms at most one group; any other peer fails its round, at some time."""
        ready = 0
        on: dict[int, int] = {}
        here = heard if self._calm else heard & (self._bits(MOST) | self._bits(MOST))
        for peer in _each(here & ~self._follows):
            if self._participant[peer] == NONE:
                ready |= 1 << peer
                on[self._base[peer]] = on.get(self._base[peer], 0) | 1 << peer
        if ready.bit_count() >= LEAST:
            ready &= ~self._close(on, side)
        if self._calm or self._bits(1):
            for peer in _each(ready):
                self._fail(peer)

    def _close(self, on: dict[int, int], side: int) -> int:
        """Returns the group on the highest base with a quorum, or a weak one; else nobody."""
        for base in sorted(on, key=lambda base: self._rank[base], reverse=True):
            if on[base].bit_count() >= LEAST and self._begin_sitting(base, on[base], side, is_strong=True):
                return on[base]
        base = max(on, key=lambda base: (on[base].bit_count(), self._rank[base]))
        is_hasty = not self._calm and not self._bits(2)
        is_patient = all(self._is_willing(peer) for peer in _each(on[base]))
        if on[base].bit_count() < LEAST or not (is_patient or is_hasty):
            return 0
        self._begin_sitting(base, on[base], side, is_strong=False)
        return on[base]

    def _is_willing(self, peer: int) -> bool:
        return not self._strong[self._base[peer]] or self._failed[peer] >= PATIENT_ROUNDS

    def _begin_sitting(self, base: int, members: int, side: int, *, is_strong: bool) -> bool:
        """Starts a session; returns False if it must be strong and there is no quorum."""
        anchor = self._anchor[base]
        electors = self._electors[anchor]
        voters = without = 0
        for peer in _each(members & electors):
            if not self._open[peer] or self._fault is Fault.UNBOUND:
                voters |= 1 << peer
        for peer in _each(side & self._follows):
            if self._resigned[peer] == anchor:
                without |= 1 << peer
        if is_strong and not self._quorums[electors << 2 * MOST | voters << MOST | without]:
            return False
        size = members.bit_count()
        threshold = THRESHOLDS[size] if self._churn.masked else size
        included = members
        if not self._calm:
            for peer in _each(members & self._bits(MOST) & self._bits(MOST)):
                if included.bit_count() > max(threshold, LEAST):
                    included &= ~(1 << peer)
        sid = len(self._sittings)
        self._sittings.append(
            Sitting(
                *(members, base, voters, electors, without, is_strong, threshold),
                anchor=self._generation[anchor],
                inside=members,
                included=included,
            )
        )
        self._running.append(sid)
        for peer in _each(members):
            self._participant[peer] = sid
        return True

    # -- sessions ----------------------------------------------------------------------------------

    def _sit(self, sid: int, side: int) -> None:
        """Runs a round of a session: releases, and whom they reach; then some members give up."""
        sitting, bits, calm = self._sittings[sid], self._bits, self._calm
        inside = sitting.inside
        whole = inside == sitting.members and not (inside & side and inside & ~side)
        speak = inside if whole else 0
        if not calm:
            speak = inside & (bits(MOST) | bits(MOST)) if bits(2) else 0
        for peer in _each(speak & ~sitting.released):
            sitting.released |= 1 << peer
            self._got[peer][sid] = 1 << peer
            if sitting.is_strong:
                self._open[peer] |= 1 << sid
        if sitting.released:
            for peer in _each(inside):
                near = side if side >> peer & 1 else ~side
                reach = sitting.released & near & (EVERYBODY if calm else bits(MOST) | bits(MOST))
                got = self._got[peer].get(sid, 0) | reach
                self._got[peer][sid] = got
                if self._opens(sitting, got):
                    self._leave(peer, sitting)
                    self._complete(peer, sid)
        for peer in _each(sitting.inside if calm else sitting.inside & bits(MOST)):
            self._leave(peer, sitting)
            self._fail(peer)

    def _leave(self, peer: int, sitting: Sitting) -> None:
        sitting.inside &= ~(1 << peer)
        self._participant[peer] = NONE

    def _complete(self, peer: int, sid: int) -> None:
        """Gives this peer the result; the first one creates the base."""
        sitting = self._sittings[sid]
        if sitting.result == NONE:
            sitting.result = self._new_base(sitting)
        if self._rank[sitting.result] > self._rank[self._base[peer]]:
            self._store(peer, sitting.result)
        self._open[peer] &= ~(1 << sid)

    def _new_base(self, sitting: Sitting) -> int:
        base, generation = len(self._parent), self._generation[sitting.parent] + 1
        elects = sitting.is_strong or self._fault is Fault.WEAK_ELECTS
        anchor = base if elects else self._anchor[sitting.parent]
        self._parent.append(sitting.parent)
        self._generation.append(generation)
        self._anchor.append(anchor)
        self._electors.append(sitting.included if elects else 0)
        self._strong.append(elects)
        size = sitting.included.bit_count()
        self._size.append(size)
        number = self._generation[anchor]
        self._rank.append(((number << 16 | generation) << 4 | size) << 16 | 0xFFFF - base)
        return base


def _each(members: int) -> Sequence[int]:
    """Yields the numbers of the bits of a set."""
    return _LISTS[members] if members < len(_LISTS) else tuple(_slowly(members))


def _slowly(members: int) -> Iterator[int]:
    while members:
        yield (members & -members).bit_length() - 1
        members &= members - 1


_LISTS: tuple[tuple[int, ...], ...] = tuple(tuple(_slowly(members)) for members in range(1 << 10))


def campaign(seeds: Iterable[int], trouble: Trouble, fault: Fault | None = None) -> list[Found]:
    """Runs these plans in succession; raises Broken at the first violation."""
    return [Swarm(churn_of(seed, trouble), seed, fault).run() for seed in seeds]
