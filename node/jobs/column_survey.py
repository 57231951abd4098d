"""The job by which members learn what the columns of their tables hold, before anybody has a schema.

    sum 0          rows; of each column how many members have numbers, truth values, text, gaps; the octaves
                   of each member's least and greatest number; words
    sum 1          how many numbers a column has, their sum and the sum of their squares; words
    sum 2 and on   words, until none is left

A word is a class label or a category. Nobody knows the words of the others, so no sum can have a place for
each. Each word therefore goes to a cell that a hash of it and of the sum's number chooses: the cell adds up
how many members have put a word there, the word's bytes, and a checksum. Where all of them put the same word,
total / number is that word, and its checksum says so. What shares a cell with other words is put again, into
another cell of the next sum (Goodrich & Mitzenmacher 2011, "Invertible Bloom lookup tables", section 2, with
one hash, and later sums in place of peeling).

So the sums show each word, how many members have it, and the octaves, but not whose they are. There is no
noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Contributed, Words
from node.jobs.limbs import LIMBS, doubles_of, limbs_of, to_numbers, to_state, to_words
from node.storage.vector_files import Floats
from node.system.errors import UserError
from protocol.wire.ids import Key

LONGEST_WORD = 60
"""The most bytes of a word, as UTF-8."""
MOST_WORDS = 1024
"""The most different words of all columns and members."""
MOST_SUMS = 24
LARGEST = 2.0**94
"""The bound of a number's absolute value."""
KINDS = ("number", "boolean", "text")
_LEAST_SUMS = 2
_TABLES = (64, 256, 1024)
"""The cells of the first sums; all later ones have as many as the last of these."""
_EXPONENTS = 94
_OCTAVES = 2 * (2 * _EXPONENTS + 1) + 1
_MARKS = len(KINDS) + 1 + 2 * _OCTAVES
_ENTRY = 63
"""The bytes of a word in a cell: its column, its length, itself."""
_CONTENT, _CHECK = _ENTRY // 3, 2
_CELL = 1 + _CONTENT + _CHECK
_UNIT = 2.0**-40
_FACTS = 9
"""The numbers of a column in a base: those of `ColumnFacts`."""

Word = tuple[int, str]
"""A column's position, and a class label or category of it."""


@dataclass(frozen=True)
class OwnColumn:
    """What a member has in a column: `numbers` (n,), NaN where there is none; `kind`: of KINDS, or None."""

    kind: str | None
    gaps: bool
    numbers: Doubles

    @property
    def present(self) -> Doubles:
        """The numbers without gaps."""
        return self.numbers[~np.isnan(self.numbers)]


@dataclass(frozen=True)
class ColumnFacts:
    """What the members together have in a column. `kinds`: how many members have which of KINDS.

    `low` and `high` enclose all numbers; `count`, `total`, `squares` are of (number - middle) / half.
    """

    kinds: tuple[int, ...]
    gaps: int
    low: float
    high: float
    count: float
    total: float
    squares: float

    @property
    def scale(self) -> tuple[float, float]:
        """(mean, standard deviation) of all numbers; 1 in place of a deviation that is lost in rounding."""
        if not self.count:
            return 0.0, 1.0
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        mean = self.total / self.count
        variance = self.squares / self.count - mean * mean
        return middle + half * mean, half * float(np.sqrt(variance)) if variance > 1e-10 else 1.0


class ColumnSurvey:
    """The job of a member with these `columns` and `words` in `rows` rows."""

    def __init__(self, rows: int, columns: Sequence[OwnColumn], words: Iterable[Word]) -> None:
        self._rows, self._columns = rows, tuple(columns)
        self._words = frozenset(_entry(word) for word in words)
        self._facts = 4 * (3 + _FACTS * len(self._columns))

    @property
    def length(self) -> int:
        """d: the facts as float64, then the words."""
        return self._facts + MOST_WORDS * (_ENTRY + 1) // 2

    def words(self, generation: int) -> int:
        """Returns the words of the marks or moments, and those of the cells."""
        count = len(self._columns)
        beside = {0: LIMBS + _MARKS * count, 1: 3 * LIMBS * count}.get(generation, 0)
        return beside + _CELL * _cells(generation)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns (): nothing has noise."""
        return ()

    def initial(self) -> Floats:
        """Returns base 0."""
        return np.zeros(self.length, np.float32)

    def is_over(self, base: Floats) -> bool:
        """Returns whether all words are known, and all facts."""
        sums, left, _ = self._head(base)
        return sums >= _LEAST_SUMS and not left

    # -- one's own rows

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns what this member adds: marks or moments, and its words that the base does not have."""
        parts = [_cells_of(self._words.difference(self._entries(base)), generation)]
        if generation == 0:
            marks = [_marks(column) for column in self._columns]
            parts = [to_words(np.array([float(self._rows)]), 1.0), *marks, *parts]
        elif generation == 1:
            pairs = zip(self._columns, self.facts(base), strict=True)
            moments = [to_words(_moments(own, found), _UNIT) for own, found in pairs]
            parts = [*moments, *parts]
        return Contributed(np.concatenate(parts).astype(np.uint32))

    # -- what all compute alike

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the base after a sum. Raises UserError for more than `MOST_WORDS` words."""
        beside, table = np.split(summed, [self.words(generation) - _CELL * _cells(generation)])
        _, _, rows = self._head(base)
        facts = doubles_of(base[: self._facts])[3:].reshape(-1, _FACTS).copy()  # (columns, 9)
        if generation == 0:
            rows = float(to_numbers(limbs_of(beside[:LIMBS]), 1.0)[0])
            for row, marks in zip(facts, beside[LIMBS:].reshape(-1, _MARKS), strict=True):
                row[:6] = _summary(marks.astype(np.int64))
        elif generation == 1:
            facts[:, 6:] = to_numbers(limbs_of(beside), _UNIT).reshape(-1, 3)
        found, left = _read(table.reshape(-1, _CELL).astype(np.int64))
        entries = sorted({*self._entries(base), *found})
        if len(entries) > MOST_WORDS:
            raise UserError(
                f"the members' categories and classes are more than {MOST_WORDS} different words; leave "
                "columns of free text out"
            )
        head = to_state(np.concatenate([[generation + 1.0, left, rows], facts.ravel()]))
        padded = b"".join(entry + b"\0" for entry in entries).ljust(MOST_WORDS * (_ENTRY + 1), b"\0")
        return np.concatenate([head, np.frombuffer(padded, "<u2").astype(np.float32)])

    def facts(self, base: Floats) -> tuple[ColumnFacts, ...]:
        """Returns what is known of each column."""
        rows = doubles_of(base[: self._facts])[3:].reshape(-1, _FACTS).tolist()
        return tuple(ColumnFacts(tuple(int(one) for one in row[:3]), int(row[3]), *row[4:]) for row in rows)

    def all_rows(self, base: Floats) -> int:
        """Returns how many rows the members have."""
        return int(self._head(base)[2])

    def all_words(self, base: Floats) -> tuple[Word, ...]:
        """Returns the known words, in the order of their columns."""
        found = (_word(entry) for entry in self._entries(base))
        return tuple(sorted(word for word in found if word is not None and word[0] < len(self._columns)))

    def _head(self, base: Floats) -> tuple[float, float, float]:
        sums, left, rows = doubles_of(base[:12]).tolist()
        return sums, left, rows

    def _entries(self, base: Floats) -> list[bytes]:
        kept = base[self._facts :].astype("<u2").tobytes()
        each = (kept[start : start + _ENTRY] for start in range(0, len(kept), _ENTRY + 1))
        return [entry for entry in each if entry[0] or entry[1]]


def _cells(generation: int) -> int:
    return _TABLES[min(generation, len(_TABLES) - 1)]


# -- numbers: octaves, and moments in the range that these span


def _octave(value: float) -> int:
    """Returns the place of a number: 0 in the middle, below it the negative ones, the largest first."""
    if not value:
        return _OCTAVES // 2
    _, exponent = np.frexp(abs(value))  # 2^(exponent - 1) <= |value| < 2^exponent
    place = int(np.clip(exponent, -_EXPONENTS, _EXPONENTS)) + _EXPONENTS + 1
    return _OCTAVES // 2 + (place if value > 0 else -place)


def _edges(place: int) -> tuple[float, float]:
    """Returns the range of an octave; the one next to 0 begins there."""
    offset = place - _OCTAVES // 2
    if not offset:
        return 0.0, 0.0
    exponent = abs(offset) - 1 - _EXPONENTS
    far, near = 2.0**exponent, 0.0 if exponent == -_EXPONENTS else 2.0 ** (exponent - 1)
    return (near, far) if offset > 0 else (-far, -near)


def _marks(own: OwnColumn) -> Words:
    marks = np.zeros(_MARKS, np.uint32)
    if own.kind is not None:
        marks[KINDS.index(own.kind)] = 1
    marks[len(KINDS)] = own.gaps
    numbers = own.present
    if len(numbers):
        lows, highs = marks[len(KINDS) + 1 :].reshape(2, _OCTAVES)
        lows[_octave(float(numbers.min()))] = 1
        highs[_octave(float(numbers.max()))] = 1
    return marks


def _summary(marks: NDArray[np.int64]) -> tuple[float, ...]:
    """Returns how many members have each kind, and gaps; then the range of all numbers, never empty."""
    lows, highs = marks[len(KINDS) + 1 :].reshape(2, _OCTAVES)
    if not (lows.any() and highs.any()):
        return (*marks[: len(KINDS) + 1].tolist(), -1.0, 1.0)
    low, high = _edges(int(np.flatnonzero(lows)[0]))[0], _edges(int(np.flatnonzero(highs)[-1]))[1]
    return (*marks[: len(KINDS) + 1].tolist(), low, high if high > low else low + 1.0)


def _moments(own: OwnColumn, found: ColumnFacts) -> Doubles:
    """Returns count, sum and sum of squares of the numbers, each scaled to -1 to 1."""
    middle, half = (found.low + found.high) / 2, (found.high - found.low) / 2
    scaled = np.clip((own.present - middle) / half, -1, 1)
    return np.array([len(scaled), scaled.sum(), (scaled * scaled).sum()])


# -- words in cells


def _entry(word: Word) -> bytes:
    column, text = word
    encoded = text.encode()
    if len(encoded) > LONGEST_WORD:
        raise ValueError(f"a word has {len(encoded)} bytes; allowed: {LONGEST_WORD}")
    return ((column + 1).to_bytes(2, "big") + bytes([len(encoded)]) + encoded).ljust(_ENTRY, b"\0")


def _word(entry: bytes) -> Word | None:
    """Returns the word of an entry; None for one that no member of good will has made."""
    column, length, rest = int.from_bytes(entry[:2], "big") - 1, entry[2], entry[3:]
    if column < 0 or length > LONGEST_WORD or any(rest[length:]):
        return None
    try:
        return column, rest[:length].decode()
    except UnicodeDecodeError:
        return None


def _limbs(content: bytes) -> NDArray[np.int64]:
    """Returns whole numbers below 2^24 of bytes, three in each."""
    parts = np.frombuffer(content, np.uint8).astype(np.int64).reshape(-1, 3)
    return (parts[:, 0] << 16) | (parts[:, 1] << 8) | parts[:, 2]


def _checked(entry: bytes) -> NDArray[np.int64]:
    """Returns a cell that one member put `entry` into."""
    digest = hashlib.sha256(b"murmuration/1/word" + entry).digest()
    return np.concatenate([[1], _limbs(entry), _limbs(digest[: 3 * _CHECK])])


def _cells_of(entries: Iterable[bytes], generation: int) -> Words:
    table = np.zeros((_cells(generation), _CELL), np.uint32)
    for entry in entries:
        digest = hashlib.sha256(b"murmuration/1/cell" + bytes([generation]) + entry).digest()
        table[int.from_bytes(digest[:8], "big") % len(table)] += _checked(entry).astype(np.uint32)
    return table.ravel()


def _read(table: NDArray[np.int64]) -> tuple[list[bytes], int]:
    """Returns the entries of a sum's cells (c, 24) that hold one each, and how many are in the others."""
    found, left = list[bytes](), 0
    for cell in table[table[:, 0] > 0]:
        count = int(cell[0])
        limbs, rest = np.divmod(cell[1 : 1 + _CONTENT], count)
        entry = b"".join(int(limb).to_bytes(4, "big")[1:] for limb in limbs) if limbs.max() < 1 << 24 else b""
        if rest.any() or not entry or not np.array_equal(_checked(entry) * count, cell):
            left += count
        elif _word(entry) is not None:
            found.append(entry)
    return found, left
