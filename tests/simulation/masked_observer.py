"""An omniscient observer of masked sessions: which linear combinations of the offers are determined.

It sees every masked vector of a session that any member ever sent, including late and useless ones:

    y_i = x_i + G(b_i) + sum over j > i of G(K_ij) - sum over j < i of G(K_ij)      (protocol, Part II, D)

Unknowns are the units in the offers x, the self masks G(b_i) and the pairwise masks G(K_ij). An opened b_i,
or mask key s_k (which gives K_kj for all j), is known. Offers of the same unit in several sessions are one
unknown, and so are masks of the same keys, so the observer combines sessions. A set of members is an int, as
in the messages. A protocol without self masks is one with known self masks. Arithmetic as in `observer`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from protocol.aggregation.masked.thresholds import tolerance
from protocol.wire import signing
from protocol.wire.masked_messages import Masked, Release, ResultCertificate
from protocol.wire.messages import Group, Key, Message, Sid
from scenarios.simulator.network import Network
from tests.simulation.observer import Basis, Column, Row

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class MaskedSession:
    """The facts about one session.

    offers: (n) the units in each member's offer; sent: whose masked vector was ever sent; self_masks,
    mask_keys: whose secret was opened; included: the members whose sum is meant to be known (0: none);
    colluders: the members who tell the observer all that they know. names: (n) what tells each member's self
    mask, and its mask key, from those of other sessions.
    """

    sid: Sid
    offers: tuple[tuple[Column, ...], ...]
    sent: int
    self_masks: int
    mask_keys: int
    included: int
    colluders: int = 0
    names: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def members(self) -> range:
        """The members' numbers."""
        return range(len(self.offers))

    @property
    def rows(self) -> Iterator[Row]:
        """Returns the equation of each masked vector that was sent; colluders' vectors add nothing."""
        sent = self.sent & ~self.colluders
        return (self._vector(member) for member in self.members if sent >> member & 1)

    @property
    def opened(self) -> frozenset[Column]:
        """Returns the masks that are known, by the opened secrets and by the colluders."""
        keys = self.mask_keys | self.colluders
        selves = {self._self_mask(member) for member in self.members if self.self_masks >> member & 1}
        pairs = {
            self._pair_mask(one, other)
            for one in self.members
            for other in self.members
            if one != other and keys & (1 << one | 1 << other)
        }
        return frozenset(selves | pairs)

    def _self_mask(self, member: int) -> Column:
        return "mask", "self", self.names[member][0] if self.names else (self.sid, member)

    def _pair_mask(self, one: int, other: int) -> Column:
        names = [self.names[each][1] if self.names else (self.sid, each) for each in sorted((one, other))]
        return "mask", "pair", *names

    def offered(self, members: int) -> Row:
        """Returns the sum of these members' offers, without the colluders' own."""
        total: Row = {}
        for member in self.members:
            if (members & ~self.colluders) >> member & 1:
                for unit in self.offers[member]:
                    total[unit] = total.get(unit, 0) + 1
        return total

    def _vector(self, member: int) -> Row:
        row = self.offered(1 << member)
        row[self._self_mask(member)] = 1
        for other in self.members:
            if other != member:
                row[self._pair_mask(member, other)] = 1 if member < other else -1
        return row


class MaskedObserver:
    """What these sessions together determine."""

    def __init__(self, sessions: Sequence[MaskedSession]) -> None:
        self._sessions = tuple(sessions)
        self._basis = Basis()
        known = frozenset[Column]().union(*(session.opened for session in self._sessions))
        for session in self._sessions:
            for row in session.rows:
                self._basis.add({column: value for column, value in row.items() if column not in known})

    def knows(self, session: MaskedSession, members: int) -> bool:
        """Returns whether the sum of these members' offers in a session is determined."""
        return not self._basis.reduce(session.offered(members))

    def determined(self) -> list[Row]:
        """Returns a basis of the combinations of units that are determined."""
        return self._basis.unmasked()

    def exposed(self) -> list[Row]:
        """Returns what is determined beyond the sums that are meant to be known; it should be empty."""
        meant = Basis()
        for session in self._sessions:
            meant.add(session.offered(session.included))
        return [row for row in self.determined() if meant.reduce(row)]


def sessions_of(network: Network, dropouts: int | None, colluders: Iterable[int] = ()) -> list[MaskedSession]:
    """Returns the masked sessions of a run; `dropouts` as in its settings, `colluders` by peer number.

    The network's rules recorded the offers when they were spent.
    """
    messages = [line.message for line in network.transcript]
    keys = frozenset(network.peers[peer].key.public for peer in colluders)
    return [
        session_of(messages, sid, members, _offers(network, sid, members), dropouts, keys)
        for sid, members in sorted(_groups(messages).items())
        if any(message.head.sid == sid for message in _of(messages, Masked))
    ]


def session_of(
    messages: Sequence[Message],
    sid: Sid,
    members: tuple[Key, ...],
    offers: tuple[tuple[Column, ...], ...],
    dropouts: int | None,
    colluders: frozenset[Key],
) -> MaskedSession:
    """Returns the facts about a session from all messages of a run; `members` and `offers` (n) in key order.

    One chunk stands for the whole vector. A release counts for the set that its head names, whether or not
    its shares are right; the colluders hold a share of every secret, and reveal it.
    """
    numbers = {key: number for number, key in enumerate(members)}
    everybody = 2 ** len(members) - 1
    needed = tolerance(len(members), dropouts).threshold
    dealt = frozenset(numbers[key] for key in colluders if key in numbers)
    releases = [message.head for message in _of(messages, Release) if message.head.sid == sid]
    selves = {(numbers[head.sender], head.included) for head in releases}
    others = {(who, everybody & ~included) for who, included in selves}
    results = {message.included for message in _of(messages, ResultCertificate) if message.sid == sid}
    full = {u for _, u in selves if len(dealt | {who for who, included in selves if included == u}) >= needed}
    return MaskedSession(
        sid=sid,
        offers=offers,
        sent=_bits(numbers[m.head.sender] for m in _of(messages, Masked) if m.head.sid == sid),
        self_masks=_opened(selves, dealt, needed) | _union(results),
        mask_keys=_opened(others, dealt, needed) | _union(everybody & ~included for included in results),
        included=min(full | results, default=0),
        colluders=_bits(dealt),
    )


def _opened(shares: set[tuple[int, int]], dealt: frozenset[int], needed: int) -> int:
    """Returns the members with enough known shares; `shares`: who gave some, and of whom."""
    named = _union(whose for _, whose in shares)
    return _bits(
        member
        for member in range(named.bit_length())
        if named >> member & 1
        and len(dealt | {who for who, whose in shares if whose >> member & 1}) >= needed
    )


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def _union(sets: Iterable[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union


def _of(messages: Iterable[Message], kind: type[Kind]) -> Iterator[Kind]:
    return (message for message in messages if isinstance(message, kind))


def _groups(messages: Iterable[Message]) -> dict[Sid, tuple[Key, ...]]:
    found: dict[Sid, tuple[Key, ...]] = defaultdict(tuple)
    for group in _of(messages, Group):
        found[signing.session_id(group)] = tuple(sorted(ready.key for ready in group.readys))
    return found


def _offers(network: Network, sid: Sid, members: tuple[Key, ...]) -> tuple[tuple[Column, ...], ...]:
    """Returns (n) what was spent in a session; members that spent nothing have no units."""
    offers = []
    for key in members:
        peer, units = network.rules.offers.get((sid, key), (0, ()))
        offers.append(tuple(("unit", peer, unit) for unit in units))
    return tuple(offers)
