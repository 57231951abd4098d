"""A coordinator's waiting room for one swarm: whom a group takes, and when it closes.

The coordinator closes a group when every announced, live peer of the room that offers is READY with the same
base, or a linger time after the READYs suffice: their senders are a quorum of the base's electors, or all
accept a weak base and they are more than half of the known members that offer (protocol.quorum.electorate).
All groups together wait for one peer no longer than a share of the time (`Room.charge`), so that nobody's
pace becomes that of all. A READY with another base than the group's waits, and its sender learns which bases
the others show. A follower is announced, but neither waited for nor counted.

Of two READYs of which one's sender would leave the other's out (`LeftOut`), one waits, as long as the rest
makes a group that is as good. The one waits that is at odds with most, so that nobody decides alone; it is
told by whom it was left out. Of two that name each other, as their link is cut, the same one waits for long:
the other is in all sums. A group that could form before can form still, whoever is at odds with whom
(`_apart`).

A tracker holds no base. Nodes send it their electors; those of a first base it names itself, once: the
members of the first group that it closes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from protocol.actions import Action, Named, Send
from protocol.adaptive_timeouts import Pace
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import BY_SIZE, Electorate, ballot_of, of_keys, weak_allowed
from protocol.wire import signing
from protocol.wire.ids import NO_ELECTORS, RESIGNED
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Announce, Base, Group, Key, LeftOut, Ready

LINGER_CAP_S = 5.0
LINGER_FLOOR_S = 1.0
WAITED_FOR = 5
"""How many groups may close without a peer before they no longer wait for it each time."""
WAITING_SHARE = 0.1
"""What part of a room's time its groups may wait for one peer, beside LINGER_CAP_S once."""
APART_S = 20.0
"""A group with two members that would leave each other out waits this long for others in their place."""
ASIDE = 64
"""For so many groups in a row one of two waits that would leave each other out, and then the other one."""

Order = tuple[int, int]
"""The (epoch, counter) of an announcement."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A room, in a form for people: the announced peers, and what a group still waits for."""

    task: str
    parameters: bytes
    announced: tuple[Announce, ...]
    unreachable: frozenset[Key]
    ready: frozenset[Key]
    """The peers whose READYs fit together."""
    needed: int
    """How many of them make a group."""
    groups: int
    """How many groups of the room this coordinator has closed."""


class Room:
    """The peers announced for one swarm, and the READYs held, each with its time of arrival.

    `key` signs its groups; `least`: the coordinator's own lower bound of their size. `names`: whether this is
    a tracker's room, which names the electors of a first base; `named`: those that it has named.
    """

    def __init__(self, key: NodeKey, least: int, names: bool, named: tuple[Key, ...] = ()) -> None:
        self._key = key
        self._min_participants = least
        self._names = names
        self.pace = Pace(LINGER_FLOOR_S, LINGER_CAP_S)
        self.announced: dict[Key, Announce] = {}
        self.gone: set[Key] = set()
        self.readys: dict[Key, tuple[Ready, float]] = {}
        self.used: dict[Key, Order] = {}
        """The order of each peer's last READY that was used or withdrawn: only later READYs count."""
        self.heard_at: dict[Key, float] = {}
        """When each announced peer was last heard (s, this node's clock)."""
        self.apart: dict[Key, tuple[bytes, tuple[Key, ...]]] = {}
        """Whom each peer would leave out, and the nonce of the READY for which it says so."""
        self.aside: Counter[Key] = Counter()
        """How many groups set each peer aside: others would leave it out."""
        self.waiting: set[Key] = set()
        """Who was set aside, and in no group since."""
        self.missed: Counter[Key] = Counter()
        """How many groups closed before each peer was READY; half of them, each time that it was in one."""
        self.credit: dict[Key, float] = {}
        """How long groups may still wait for a peer (s); unless it stands here, LINGER_CAP_S."""
        self.closed_at: float | None = None
        """When the last group closed (s, this node's clock)."""
        self.attempt = 0
        self.electorates: OrderedDict[bytes, Electorate] = OrderedDict()
        """The electorates that nodes sent last, by digest."""
        self.named = named
        """The electors of the first base, if this coordinator is a tracker that named them."""
        self.liars = BY_SIZE
        """How many of them may lie, as the nodes that leave their names to the tracker said last."""

    @property
    def offering(self) -> frozenset[Key]:
        """The announced peers that do not follow."""
        return frozenset(key for key, announce in self.announced.items() if not announce.following)

    def waits_for(self, fitting: Collection[Key]) -> frozenset[Key]:
        """The peers, apart from these, whose READYs a group waits for.

        Who has missed WAITED_FOR groups is waited for at each power of two of them only, so that a peer that
        is much slower than the others costs them little.
        """
        late = self.offering - self.gone - set(fitting)
        counts = {key: self.missed[key] for key in late}
        return frozenset(key for key, n in counts.items() if n < WAITED_FOR or n.bit_count() == 1)

    def patience_s(self, late: Collection[Key]) -> float:
        """How long a group may wait for the last of these, once all others are READY."""
        return max((self.credit.get(key, LINGER_CAP_S) for key in late), default=0.0)

    def charge(self, waits: Mapping[Key, float], now: float) -> None:
        """A group closes now that has waited so long for each of these: from their credit.

        All have earned WAITING_SHARE of the time since the group before. So all groups together wait no
        longer for a peer than LINGER_CAP_S and that share of the time, however its READYs come.
        """
        earned = 0.0 if self.closed_at is None else WAITING_SHARE * (now - self.closed_at)
        self.closed_at = now
        for key in self.credit.keys() | waits.keys():
            left = self.credit.get(key, LINGER_CAP_S) + earned - waits.get(key, 0.0)
            self.credit[key] = min(LINGER_CAP_S, max(0.0, left))

    def closed(self, chosen: Collection[Key], kept_out: Collection[Key] = ()) -> None:
        """A group of these was closed: all others that are here and offer have missed it.

        `kept_out`: others, for which it did not wait because of whom they are at odds with.
        """
        self.missed.update(self.offering - self.gone - {*chosen, *kept_out})
        for key in chosen:
            self.missed[key] //= 2
        self.waiting.difference_update(chosen)

    def picture(self, swarm: tuple[str, bytes]) -> Waiting:
        """The state of this room, that of a swarm."""
        keys = self._fitting()
        return Waiting(
            *swarm,
            announced=tuple(self.announced[key] for key in sorted(self.announced)),
            unreachable=frozenset(self.gone),
            ready=frozenset(keys),
            needed=self._needed(keys, len(self.offering)),
            groups=self.attempt,
        )

    def remove(self, key: Key) -> None:
        """Forget a peer."""
        self.announced.pop(key, None)
        self.readys.pop(key, None)
        self.used.pop(key, None)
        self.heard_at.pop(key, None)
        self.apart.pop(key, None)
        self.missed.pop(key, None)
        self.aside.pop(key, None)
        self.waiting.discard(key)
        self.credit.pop(key, None)
        self.gone.discard(key)

    def closing_time(self, known: int) -> float | None:
        """When to close the room's group; None while there are too few READYs. `known`: as in `close`."""
        if not self.readys:
            return None
        fitting = self._fitting()
        ordered = self._apart(fitting, known)
        arrivals = [self.readys[key][1] for key in ordered]
        enough = self._enough(ordered, known)
        if enough is None:
            return None
        late = self.waits_for(fitting) - self._again(fitting)
        if not late:
            return max(self.readys[key][1] for key in fitting)
        if self._at_odds(ordered):
            return arrivals[enough - 1] + APART_S
        return min(arrivals[enough - 1] + self.pace.allowed_s, arrivals[-1] + self.patience_s(late))

    def close(self, known: int, now: float) -> list[Action]:
        """Close a group. `known`: the members that offer, of which a weak group needs more than half."""
        fitting = self._fitting()
        ordered = self._apart(fitting, known)
        aside = set(fitting).difference(ordered)
        told = self._set_aside(fitting, aside)
        again = self._again(fitting)
        self.aside.update(aside | again)  # else no turn comes of one that is always READY a little late
        self.waiting.update(aside)
        arrivals = [self.readys[key][1] for key in ordered]
        self.pace.observe(arrivals[-1] - arrivals[0])
        enough = self._enough(ordered, known) or len(ordered)
        self.charge(self._waits(ordered, enough, now), now)
        chosen = self._electors_first(ordered)[:MAX_MEMBERS]
        self.closed(chosen, aside | again)
        readys = tuple(self.readys.pop(key)[0] for key in sorted(chosen))
        self.used.update({ready.key: ready.announce.order for ready in readys})
        for ready in readys:
            self.apart.pop(ready.key, None)
        actions = self._name(readys)
        unsigned = Group(
            readys,
            self.attempt,
            self._key.public,
            excused=() if self._is_strong(readys, ()) else self._excusable(readys),
            electors=self.named if self._is_unnamed(readys[0]) else (),
        )
        group = signing.sign(unsigned, self._key)
        self.attempt += 1
        return [*actions, *(Send(ready.key, (group,)) for ready in readys), *told]

    def _waits(self, ordered: Sequence[Key], enough: int, now: float) -> dict[Key, float]:
        """How long a group of these, closed now, has waited for each peer alone, once there were `enough`."""
        arrivals = [self.readys[key][1] for key in ordered]
        gaps = zip(ordered[enough:], pairwise(arrivals[enough - 1 :]), strict=True)
        fitting = self._fitting()
        late = self.waits_for(fitting) - self._again(fitting)
        return {key: at - before for key, (before, at) in gaps} | dict.fromkeys(late, now - arrivals[-1])

    def _again(self, fitting: Collection[Key]) -> frozenset[Key]:
        """The peers that would only be set aside again, each by one that it would leave out itself."""
        return frozenset(
            other
            for key in fitting
            for other in self._wishes(key)
            if other in self.waiting
            and self.aside[other] - self.aside[key] < ASIDE
            and key in self.apart.get(other, (b"", ()))[1]
        )

    def _set_aside(self, fitting: Sequence[Key], aside: Collection[Key]) -> list[Action]:
        """What the peers are told whose READYs others would leave out: who they are."""
        wishes = {by: self._wishes(by) for by in sorted(fitting)}
        askers = {key: tuple(by for by in wishes if key in wishes[by]) for key in sorted(aside)}
        return [Send(key, (LeftOut(self.readys[key][0].nonce, by),)) for key, by in askers.items() if by]

    def _electors_first(self, ordered: Sequence[Key]) -> list[Key]:
        """These peers, electors first, so that a group that cannot hold all takes the electors."""
        electing = self._electing(ordered)
        return sorted(ordered, key=lambda key: key not in electing)

    def _electing(self, keys: Sequence[Key]) -> frozenset[Key]:
        """The electors among these peers, if this coordinator knows whom they count as such."""
        readys = [self.readys[key][0] for key in keys]
        electorate = self._electorate(tuple(readys)) if readys else None
        if electorate is None:
            return frozenset()
        return frozenset(ready.key for ready in readys if electorate.elector(ready.announce) is not None)

    def _name(self, readys: tuple[Ready, ...]) -> list[Action]:
        """Name the electors if this is a tracker's first group on a first base: its members, for good."""
        if not self._is_unnamed(readys[0]) or self.named:
            return []
        swarm = readys[0].announce.swarm
        self.named = tuple(ready.key for ready in readys)
        return [Named(*swarm, self.named)]

    def _is_unnamed(self, ready: Ready) -> bool:
        """Whether this is a tracker, and it names the electors of this READY's base."""
        return self._names and ready.electors == NO_ELECTORS

    def _excusable(self, readys: tuple[Ready, ...]) -> tuple[Announce, ...]:
        """The announcements of electors that resigned on this anchor, in key order."""
        anchor, announced = readys[0].announce.base.anchor, self.announced.values()
        resigned = [each for each in announced if each.open == (RESIGNED,) and each.base.anchor == anchor]
        outside = [each for each in resigned if all(each.key != ready.key for ready in readys)]
        return tuple(sorted(outside, key=lambda announce: announce.key))[:MAX_MEMBERS]

    def _electorate(self, readys: tuple[Ready, ...]) -> Electorate | None:
        """The electorate that all of these count with, if this coordinator knows it."""
        if self._is_unnamed(readys[0]):
            return of_keys(self.named, self.liars) if self.named else None
        return self.electorates.get(readys[0].electors)

    def _is_strong(self, readys: tuple[Ready, ...], excused: tuple[Announce, ...] | None = None) -> bool:
        """Whether a group of these READYs would have a quorum. `excused`: None: all that it may."""
        if self._is_unnamed(readys[0]) and not self.named:
            return all(self._is_unnamed(ready) for ready in readys)
        electorate = self._electorate(readys)
        if electorate is None or len({ready.electors for ready in readys}) > 1:
            return False
        ballot = ballot_of(readys, self._excusable(readys) if excused is None else excused, electorate)
        return ballot.is_quorum(ballot.voters)

    def _is_allowed(self, readys: tuple[Ready, ...], known: int) -> bool:
        """Whether a group of these READYs may be closed."""
        is_first = self._is_unnamed(readys[0]) and not self.named
        if is_first:
            return 2 * len(readys) > known
        return self._is_strong(readys) or weak_allowed(Group(readys, 0, b""), known)

    def _least(self, keys: Iterable[Key]) -> int:
        """The least number of members of a group of these peers, whoever they are."""
        return max((self._min_participants, *(self.readys[key][0].announce.min_participants for key in keys)))

    def _enough(self, ordered: Sequence[Key], known: int) -> int | None:
        """How many of these, in order of arrival, make a group; None if not even all do."""
        readys = tuple(self.readys[key][0] for key in ordered)
        least = self._least(ordered)
        if len(ordered) < least or not self._is_allowed(readys, known):
            return None
        sizes = range(max(least, self._fewest(readys, least, known)), len(ordered) + 1)
        return next((size for size in sizes if self._is_allowed(readys[:size], known)), len(ordered))

    def _fewest(self, readys: tuple[Ready, ...], least: int, known: int) -> int:
        """How many of these, in their order, make a group at least: fewer are no quorum, and half or less.

        The first `least` do without the most electors: who joins them may count fewer as gone, never more.
        """
        electorate, weakly = self._electorate(readys), known // 2 + 1
        if electorate is None:
            return weakly
        some = readys[:least]
        strongly = electorate.fewest(ballot_of(some, self._excusable(some), electorate).without)
        may_be_weak = readys[0].weak or readys[0].announce.base.anchor == 0
        return min(strongly, weakly) if may_be_weak else strongly

    def _needed(self, ordered: Sequence[Key], known: int) -> int:
        """How many members a group needs, as far as one number can say it."""
        readys = tuple(self.readys[key][0] for key in ordered)
        electorate = self._electorate(readys) if readys else None
        if electorate is None or all(ready.weak for ready in readys):
            return max(self._least(ordered), min(known // 2 + 1, MAX_MEMBERS))
        return max(self._least(ordered), electorate.needed())

    def _fitting(self) -> tuple[Key, ...]:
        """The peers whose READYs fit together, in order of arrival.

        These are a quorum on the highest base that has one. Otherwise they are the peers on the base that
        most show (the higher one on a tie), and of them only those willing to join a weak group, if there are
        any, so that others do not hold them up.
        """
        by_base: dict[Base, list[Key]] = {}
        for key in sorted(self.readys, key=lambda key: (self.readys[key][1], key)):
            by_base.setdefault(self.readys[key][0].announce.base, []).append(key)
        for base in sorted(by_base, key=lambda base: base.rank, reverse=True):
            for alike in self._alike(by_base[base]):
                readys = tuple(self.readys[key][0] for key in alike)
                enough = len(alike) >= self._least(alike)
                if enough and self._is_strong(readys):
                    return alike
        if not by_base:
            return ()
        keys = by_base[max(by_base, key=lambda base: (len(by_base[base]), base.rank))]
        electors = {self.readys[key][0].electors for key in keys}
        willing = tuple(key for key in keys if self.readys[key][0].weak)
        return willing if willing and len(electors) == 1 else tuple(keys)

    def _apart(self, ordered: tuple[Key, ...], known: int) -> tuple[Key, ...]:
        """These, without those whom others would leave out, as long as the rest may be closed as a group.

        Each time the peer goes that is at odds with most of the rest. Among equals they change (`_at_odds`):
        so one peer's word costs another its place no more often than itself.
        """
        kept = ordered
        while True:
            at_odds = self._at_odds(kept)
            rests = (tuple(other for other in kept if other != key) for key in at_odds)
            rest = next((rest for rest in rests if self._is_as_good(rest, kept, known)), None)
            if rest is None:
                return kept
            kept = rest

    def _at_odds(self, keys: tuple[Key, ...]) -> list[Key]:
        """Those of these that are at odds with others of them, in the order in which one of them waits.

        With the most first. Among equals, who has waited for long enough comes last: for one group, if it
        would not leave out the other, too. Who waits already goes on; if the two were in one group since, it
        is who has waited less; then, whom most name; then, who is no elector: a newcomer before others.
        """
        wishing = [key for key in keys if key in self.apart]
        wishes = {(key, other) for key in wishing for other in self._wishes(key) if other in keys}
        pairs = Counter(key for pair in {frozenset(wish) for wish in wishes} for key in pair)
        named = Counter(other for _, other in wishes)
        mutual = {key for key, other in wishes if (other, key) in wishes}
        electing = self._electing(keys) if wishes else frozenset()
        least = {
            key: min(self.aside[other] for way in wishes if key in way for other in way) for key in pairs
        }

        def place(key: Key) -> tuple[int, bool, bool, int, int, bool, Key]:
            waited = self.aside[key]
            has_waited = waited - least[key] >= (ASIDE if key in mutual else 1)
            goes_on = key in mutual and key in self.waiting
            return -pairs[key], has_waited, not goes_on, waited, -named[key], key in electing, key

        return sorted(pairs, key=place)

    def _wishes(self, key: Key) -> tuple[Key, ...]:
        """Whom a READY's sender would leave out."""
        nonce, keys = self.apart.get(key, (b"", ()))
        return tuple(other for other in keys if other != key) if nonce == self.readys[key][0].nonce else ()

    def _is_as_good(self, rest: tuple[Key, ...], whole: tuple[Key, ...], known: int) -> bool:
        """Whether a part of a group may be closed as well, and is strong if the whole is."""
        some, every = (tuple(self.readys[key][0] for key in keys) for keys in (rest, whole))
        if len(rest) < self._least(rest) or not self._is_allowed(some, known):
            return False
        return self._is_strong(some) or not self._is_strong(every)

    def _alike(self, keys: list[Key]) -> list[tuple[Key, ...]]:
        """The keys, grouped by the electors that they count with."""
        of: dict[bytes, list[Key]] = {}
        for key in keys:
            of.setdefault(self.readys[key][0].electors, []).append(key)
        return [tuple(of[digest]) for digest in sorted(of)]
