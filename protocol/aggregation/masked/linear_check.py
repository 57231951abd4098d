"""Sums with their carries, and a random linear check that a sum is right (after Freivalds 1977).

For the vectors y_i of the members in U, words of w bits (32 or 16), the reducer of a chunk sends T = sum mod
2^w and the carries c = floor(sum / 2^w) < members: together S = T + 2^w c, a vector of integers. (A check
modulo 2^w alone would not work: an error of 2^(w - 1) is invisible to every even coefficient.) Every member
then compares <r, S> with the sum of the members' <r, y_i>, for CHECKS random vectors r, each modulo a prime
of its own.

**Coefficients.** With the words of a chunk in rows of COLUMNS, Y = (Y_ab), and u_a, v_b independent and
uniform in [0, 2^30), r_ab = u_a v_b: <r, y> = u^T Y v, which takes two short matrix products. u and v are
fresh for each check and each chunk, from a seed that is a hash of all totals: nobody knows them before
every total is fixed.

**Soundness.** Let e = S' - S be the error of a chunk, integers with |e_ab| < 2^38 for up to 64 members, not
all 0 (below 2^22 with words of 16 bits). A fixed prime would not be safe: e_ab = p passes any check modulo p,
and the reducer may choose it. So the primes are three different ones, uniform among the N = 50 697 537
between 2^30 and 2^31, drawn from the same seed. Take one e_ab that is not 0: two such primes that divide it
have a product above 2^60, so at most one prime q divides it, and at most one of the three is q, with
probability <= 3 / N. Modulo any other p, the polynomial sum of e_ab u_a v_b has degree 2 and is not 0, and
the values of u and v are different modulo p; so it vanishes with probability <= 2 / 2^30 (Schwartz 1980,
Zippel 1979). In all

    P(a wrong total passes) <= (3 / N) 2^-58 + 2^-87 < 2^-81

for one seed; further wrong chunks only make it less. A reducer that tries k totals offline, hashing each,
passes with one of them with probability < k 2^-81. The check proves "the sum of what the members say that
they sent": a member that colludes with the reducer can answer for y_i + e instead of y_i, which it was
free to send in the first place.

**Exactness.** The products Y v are computed in float64: words are below 2^32 and v is cut into 3 pieces of 10
bits, or below 2^22, as S is with short words, and v is cut into 2 pieces of 15. So 1024 terms add up to less
than 2^53, in any order, with or without fused operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from protocol.aggregation.masked.carries import Carries
from protocol.aggregation.masked.layout import Layout
from protocol.crypto import prg
from protocol.crypto.sealing import derive
from protocol.errors import LocalProtocolError
from protocol.vectors.pieces import Words
from protocol.vectors.ring import NARROW, WIDE, Ring
from protocol.wire.limits import CHECKS

COLUMNS = 1024
_ROWS = 16
"""Rows in a block: 128 KiB of float64 fit a core's cache, and are too few for BLAS to use more threads."""
_COEFFICIENT_BITS = 30
_EXACT_BITS = 53 - 10
"""The bits of a product of which float64 adds up 1024 exactly."""
_ADDED_WORDS = 1 << 16
_WITNESSES = (2, 3, 5, 7)
_DRAWN_WORDS = 1024

Products = tuple[int, int, int]
_Numbers = NDArray[np.int64]


def add_up(parts: Sequence[memoryview | bytes], words: int, ring: Ring = WIDE) -> tuple[Words, Carries]:
    """((w,) words of the sum, (w,) uint8 carries) of up to 256 chunks of w words each.

    It adds block by block, so that the sums stay in a core's cache. Raises LocalProtocolError if a chunk has
    another length; callers check received chunks on arrival.
    """
    size = ring.word_bytes * words
    if any(len(part) != size for part in parts):
        raise LocalProtocolError(f"chunks of {sorted({len(part) for part in parts})} bytes, not {size}")
    total, carries = np.zeros(words, dtype=ring.word), np.zeros(words, dtype=np.uint8)
    vectors = [np.frombuffer(part, dtype=ring.word) for part in parts]
    for first in range(0, words, _ADDED_WORDS):
        block = slice(first, first + _ADDED_WORDS)
        added, carried = total[block], carries[block]
        for part in (vector[block] for vector in vectors):
            np.add(added, part, out=added)
            wrapped = np.less(added, part)  # the sum is smaller than its summand
            np.add(carried, wrapped.view(np.uint8), out=carried)
    return total, carries


class Coefficients:
    """The random vectors, and `primes`, the modulus of each check.

    `seed`: 32 bytes that nobody knew before all totals were fixed: a hash of them.
    """

    def __init__(self, seed: bytes, layout: Layout) -> None:
        self._seed = seed
        self._layout = layout
        self._pieces = -(-_COEFFICIENT_BITS // (_EXACT_BITS - layout.ring.bits))
        self._piece_bits = _COEFFICIENT_BITS // self._pieces
        self.primes = _draw_primes(derive(seed, b"check-primes"))

    def words(self, payload: bytes | memoryview) -> Words:
        """The words of a chunk."""
        return np.frombuffer(payload, dtype=self._layout.ring.word)

    def products(self, index: int, words: Words) -> Products:
        """<r, y> for each check over the (w,) words of chunk `index`, modulo the check's prime.

        Raises LocalProtocolError if that chunk has another length.
        """
        u, v = self._vectors(index, len(words))
        return self._reduced(u, self._rows(words, self._cut(v)))

    def total_products(self, index: int, words: Words, carries: Carries) -> Products:
        """<r, T + 2^w c> for each check: (w,) sums and (w,) uint8 carries of chunk `index`."""
        u, v = self._vectors(index, len(words))
        if self._layout.ring == NARROW:
            whole = words | carries.astype(np.uint32) << np.uint32(NARROW.bits)
            return self._reduced(u, self._rows(whole, self._cut(v)))
        low = self._rows(words, self._cut(v))
        high = _times(carries, v.astype(np.float64)) % np.array(self.primes)
        return self._reduced(u, low + (high << self._layout.ring.bits) % np.array(self.primes))

    def agree(self, products: Iterable[Sequence[int]], total: Sequence[int]) -> bool:
        """Whether the members' products of one chunk add up to those of its total, modulo each prime."""
        sums = map(sum, zip(*products, strict=True))
        return all(
            (one - other) % prime == 0 for one, other, prime in zip(sums, total, self.primes, strict=True)
        )

    def _vectors(self, index: int, length: int) -> tuple[_Numbers, _Numbers]:
        """((rows, CHECKS), (COLUMNS, CHECKS)) coefficients u and v of chunk `index`."""
        if length != self._layout.length(index):
            raise LocalProtocolError(f"{length} words of chunk {index}, not {self._layout.length(index)}")
        rows = -(-length // COLUMNS)
        seed = derive(self._seed, b"check-chunk", index.to_bytes(4, "big"))
        drawn = prg.words(seed, 0, CHECKS * (rows + COLUMNS)) >> 2
        numbers = drawn.astype(np.int64).reshape(-1, CHECKS)
        return numbers[:rows], numbers[rows:]

    def _rows(self, words: Words, cut: NDArray[np.float64]) -> _Numbers:
        """(rows, CHECKS): Y v modulo the primes, from v in pieces."""
        pieces = _times(words, cut).reshape(-1, self._pieces, CHECKS) % np.array(self.primes)
        weights = 1 << self._piece_bits * np.arange(self._pieces)
        rows: _Numbers = (pieces * weights[:, None]).sum(axis=1) % np.array(self.primes)
        return rows

    def _reduced(self, u: _Numbers, rows: _Numbers) -> Products:
        """u^T rows modulo the primes; rows are below 2^32, so that a term is below 2^62."""
        terms = u * rows % np.array(self.primes)
        one, two, three = (terms.sum(axis=0) % np.array(self.primes)).tolist()
        return one, two, three

    def _cut(self, v: _Numbers) -> NDArray[np.float64]:
        """(COLUMNS, pieces x CHECKS): each coefficient in pieces of so many bits, the lowest first."""
        bits = self._piece_bits
        pieces = [v >> bits * place & (1 << bits) - 1 for place in range(self._pieces)]
        return np.concatenate(pieces, axis=1).astype(np.float64)


def _times(vector: Words | Carries, matrix: NDArray[np.float64]) -> _Numbers:
    """(rows, k) products of a vector in rows of COLUMNS, padded with 0, and a (COLUMNS, k) matrix."""
    rows = -(-len(vector) // COLUMNS)
    out = np.empty((rows, matrix.shape[1]))
    block = np.zeros(_ROWS * COLUMNS)
    for first in range(0, rows, _ROWS):
        part = vector[first * COLUMNS : (first + _ROWS) * COLUMNS]
        block[: len(part)] = part
        block[len(part) :] = 0
        used = min(_ROWS, rows - first)
        np.matmul(block.reshape(_ROWS, COLUMNS)[:used], matrix, out=out[first : first + used])
    return out.astype(np.int64)


def _draw_primes(seed: bytes) -> Products:
    """Three different primes, uniform among those between 2^30 and 2^31."""
    primes = filter(_is_prime, _candidates(seed))
    found: dict[int, None] = {}
    while len(found) < CHECKS:
        found[next(primes)] = None
    one, two, three = found
    return one, two, three


def _candidates(seed: bytes) -> Iterator[int]:
    """An endless stream of uniform odd numbers between 2^30 and 2^31."""
    return chain.from_iterable(map(partial(_drawn, seed), count()))


def _drawn(seed: bytes, block: int) -> list[int]:
    words = prg.words(seed, block * _DRAWN_WORDS, _DRAWN_WORDS)
    numbers: list[int] = (words >> 2 | 1 << 30 | 1).tolist()
    return numbers


def _is_prime(number: int) -> bool:
    """Whether an odd number between 7 and 3 215 031 751 is prime: Miller-Rabin with 2, 3, 5, 7 is exact.

    (Jaeschke 1993: the least composite that passes all four is 3 215 031 751.)
    """
    if any(number % small == 0 for small in _WITNESSES):
        return False
    twos = (number - 1 & 1 - number).bit_length() - 1
    return all(_passes(number, witness, twos) for witness in _WITNESSES)


def _passes(number: int, witness: int, twos: int) -> bool:
    power = pow(witness, number >> twos, number)
    if power in (1, number - 1):
        return True
    return any((power := power * power % number) == number - 1 for _ in range(twos - 1))
