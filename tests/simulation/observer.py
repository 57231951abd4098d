"""An omniscient observer: sees every message of a run, and derives by exact linear algebra what they reveal.

Unknowns are the result of each training (a unit) and each pairwise mask of each session. Every partial sum
that anybody sent is one row, including late and useless ones: p_j = x_j + sum over i of m_ij, m_ij = -m_ji.
All coordinates of a vector obey the same equations, so one number stands for each vector. Arithmetic is
modulo a large prime: it determines the same combinations as the rationals, except with a probability of
about 2^-61.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from protocol.wire import signing
from protocol.wire.messages import Group, Key, Sid, Sum
from scenarios.simulator.network import Network

PRIME = 2**61 - 1

Column = tuple[object, ...]
Row = dict[Column, int]


def _unit(peer: int, unit: int) -> Column:
    return "unit", peer, unit


def _is_mask(column: Column) -> bool:
    return column[0] == "mask"


class Basis:
    """Rows in echelon form, masks eliminated first."""

    def __init__(self) -> None:
        self._pivots: dict[Column, Row] = {}

    def reduce(self, row: Row) -> Row:
        """Reduces a row by all known rows; returns the rest."""
        rest = {column: value % PRIME for column, value in row.items() if value % PRIME}
        while True:
            column = next((column for column in rest if column in self._pivots), None)
            if column is None:
                return rest
            factor = rest[column]
            for other, value in self._pivots[column].items():
                left = (rest.get(other, 0) - factor * value) % PRIME
                if left:
                    rest[other] = left
                else:
                    rest.pop(other, None)

    def add(self, row: Row) -> None:
        """Adds a row; keeps every pivot out of every other row."""
        rest = self.reduce(row)
        if not rest:
            return
        pivot = min(rest, key=lambda column: (not _is_mask(column), str(column)))
        inverse = pow(rest[pivot], PRIME - 2, PRIME)
        unit = {column: value * inverse % PRIME for column, value in rest.items()}
        self._pivots[pivot] = unit
        for other, row_of_other in list(self._pivots.items()):
            if other != pivot and pivot in row_of_other:
                factor = row_of_other[pivot]
                merged = dict(row_of_other)
                for column, value in unit.items():
                    merged[column] = (merged.get(column, 0) - factor * value) % PRIME
                self._pivots[other] = {column: value for column, value in merged.items() if value}

    def unmasked(self) -> list[Row]:
        """The rows without a mask; they span all such rows that follow from the added ones."""
        return [row for pivot, row in self._pivots.items() if not _is_mask(pivot)]


class Observer:
    """What a transcript determines. The observer also knows the offers and masks of `colluders`."""

    def __init__(self, network: Network, colluders: Iterable[int] = ()) -> None:
        self._network = network
        self._colluders = frozenset(colluders)
        self._groups = {
            signing.session_id(line.message): tuple(ready.key for ready in line.message.readys)
            for line in network.transcript
            if isinstance(line.message, Group)
        }
        self._basis = Basis()
        for sid, sender in sorted({(m.sid, m.sender) for m in self._sums()}):
            self._basis.add(self._row(sid, sender))

    def _sums(self) -> Iterator[Sum]:
        return (line.message for line in self._network.transcript if isinstance(line.message, Sum))

    def _peer(self, key: Key) -> int:
        index = self._network.index_of(key)
        assert index is not None
        return index

    def _row(self, sid: Sid, sender: Key) -> Row:
        row = self._offer(sid, sender)
        mine = self._peer(sender)
        for key in self._groups[sid]:
            theirs = self._peer(key)
            if theirs != mine and not {mine, theirs} & self._colluders:
                low, high = min(mine, theirs), max(mine, theirs)
                row["mask", sid, low, high] = 1 if mine == low else -1
        return row

    def _offer(self, sid: Sid, key: Key) -> Row:
        peer, units = self._network.rules.offers[sid, key]
        return {} if peer in self._colluders else {_unit(peer, unit): 1 for unit in units}

    @property
    def sessions(self) -> tuple[Sid, ...]:
        """The sessions in which at least one partial sum was sent."""
        return tuple(sorted({message.sid for message in self._sums()}))

    def senders(self, sid: Sid) -> tuple[int, ...]:
        """Returns the members whose partial sum of a session was seen."""
        return tuple(sorted({self._peer(m.sender) for m in self._sums() if m.sid == sid}))

    def knows(self, sid: Sid, peers: Iterable[int]) -> bool:
        """Returns whether the sum of these peers' offers in a session is determined."""
        wanted: Row = {}
        for peer in peers:
            for column, value in self._offer(sid, self._network.peers[peer].key.public).items():
                wanted[column] = wanted.get(column, 0) + value
        return not self._basis.reduce(wanted)

    def exposed(self) -> list[tuple[Sid, tuple[int, ...]]]:
        """Returns the sums over a part of a group's honest members that are determined: should be none."""
        return [
            (sid, part) for sid in self.sessions for part in self._proper_parts(sid) if self.knows(sid, part)
        ]

    def _proper_parts(self, sid: Sid) -> Iterator[tuple[int, ...]]:
        honest = {self._peer(key) for key in self._groups[sid]} - self._colluders
        senders = sorted(honest.intersection(self.senders(sid)))
        for size in range(1, min(len(senders), len(honest) - 1) + 1):
            yield from combinations(senders, size)
