"""Words for people: the code of an invitation, and the words of a key that two people compare by telephone.

    HOST[:PORT]/DDDDD-word-word-word

HOST and PORT (443 unless said) are those of the relay, the five digits name a room there, and the three words
are the secret: 31 bits. The five words of a key are 51 bits of its SHA-256.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass

from protocol.invitation.word_list import WORDS
from protocol.wire.endpoints import canonical
from protocol.wire.ids import Key

SECRET_WORDS, KEY_WORDS = 3, 5
RANDOM_BYTES = 16
"""The random bytes from which a secret is made."""
_PORT = ":443"
_ROOM = re.compile(r"[0-9]{5}")
_FORM = "HOST/DDDDD-word-word-word, as the inviter's window shows it"
_KNOWN = frozenset(WORDS)


@dataclass(frozen=True)
class Code:
    """The code of an invitation. `relay`: HOST:PORT; `room`: five digits; `secret`: its words, hyphenated."""

    relay: str
    room: str
    secret: str

    def __str__(self) -> str:
        return f"{self.relay.removesuffix(_PORT)}/{self.room}-{self.secret}"


def new_secret(random: bytes) -> str:
    """Three words, hyphenated, from 16 random bytes."""
    return "-".join(_words(int.from_bytes(random, "big"), SECRET_WORDS))


def key_words(key: Key) -> str:
    """The five words of a key. Nobody makes a second key of the same words in less than 2^51 tries."""
    return " ".join(_words(int.from_bytes(hashlib.sha256(key).digest(), "big"), KEY_WORDS))


def _words(number: int, count: int) -> list[str]:
    return [WORDS[number // len(WORDS) ** place % len(WORDS)] for place in range(count)]


def read_code(written: str) -> Code:
    """The code that somebody typed. Raises ValueError, one line that says what is wrong and what is right."""
    relay, slash, rest = written.strip().lower().rpartition("/")
    room, *words = rest.split("-")
    if not slash or not _ROOM.fullmatch(room) or len(words) != SECRET_WORDS:
        raise ValueError(f'"{written[:100]}" is no code; allowed: {_FORM}')
    for word in words:
        if word not in _KNOWN:
            raise ValueError(f'the code has no word "{word[:20]}"{_proposal(word)}')
    return Code(read_relay(relay), room, "-".join(words))


def read_relay(written: str) -> str:
    """HOST:PORT of a relay that somebody typed as HOST or HOST:PORT. Raises ValueError, one line."""
    endpoint = canonical(written) or canonical(written + _PORT)
    if endpoint is None:
        raise ValueError(f'"{written[:100]}" is no address of a relay; allowed: HOST or HOST:PORT')
    return endpoint


def _proposal(word: str) -> str:
    """The nearest word of the list; the same letters in another order are nearer than any others."""
    near = difflib.get_close_matches(word, WORDS, n=8, cutoff=0.5)
    near.sort(key=lambda known: sorted(known) != sorted(word))
    return f"; did you mean {near[0]}?" if near else f"; allowed: {_FORM}"
