"""Free text as a vector by its words alone, without a vocabulary: nothing of a member's words is told.

    terms      the runs of letters and digits of the text (NFKC, in lower case), and each two that follow
               one another
    place      BLAKE2b of the term as UTF-8, 8 bytes, little-endian, h: (h >> 1) mod width
    value      the sum of +1 or -1 for each term at the place, by the lowest bit of h

The feature hashing of Weinberger et al. 2009 (arXiv:0902.2206): the signs keep inner products unbiased.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise

import numpy as np
from numpy.typing import NDArray

MOST_CHARACTERS = 100_000
"""Of a text; what follows is not read."""
_MOST_WORDS = 10_000
_WORD = re.compile(r"\w+")


def hashed(texts: Sequence[str], width: int) -> NDArray[np.float32]:
    """Returns (n, width) sums of signs of the texts' terms, not scaled."""
    found = np.zeros((len(texts), width), np.float32)
    for row, text in enumerate(texts):
        codes = np.fromiter(map(_code, _terms(text)), np.uint64)
        signs = np.where(codes & np.uint64(1), 1.0, -1.0)
        np.add.at(found[row], (codes >> np.uint64(1)) % np.uint64(width), signs)
    return found


def _terms(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKC", text[:MOST_CHARACTERS]).lower()
    words = [match.group() for match in islice(_WORD.finditer(plain), _MOST_WORDS)]
    return chain(words, map(" ".join, pairwise(words)))


@lru_cache(maxsize=1 << 16)
def _code(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")
