"""A relay's word: whoever knows it may invite by this relay. Its operator gives it to people: HOST#v8k2-qm4t.

The word has 40 bits. It opens nothing by itself: an inviter gets a licence for it, and the relay counts wrong
words (protocol.relay.rooms). Nobody ever sends it. Both ends prove that they know it (CPace, bound to both
keys), so another machine in the relay's place learns nothing of it, and the inviter notices.
"""

from __future__ import annotations

from protocol.crypto import cpace
from protocol.errors import LocalProtocolError
from protocol.wire.ids import Key

WORD_BYTES = 5
NONCE_BYTES = 16
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base32: no letter is taken for a digit, or for another letter."""
_HALF = 4
_LOOK_ALIKES = str.maketrans("iol", "101")


def make_word(random: bytes) -> str:
    """The word of 5 random bytes.

    >>> make_word(bytes(5)), make_word(bytes([255] * 5))
    ('0000-0000', 'zzzz-zzzz')
    """
    if len(random) != WORD_BYTES:
        raise LocalProtocolError(f"a word of {len(random)} random bytes, not {WORD_BYTES}")
    number = int.from_bytes(random, "big")
    letters = "".join(_LETTERS[number >> shift & 31] for shift in range(35, -1, -5))
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


def read_word(written: str) -> str | None:
    """The word that somebody wrote, in its one form; None if it is none.

    >>> read_word(" V8K2QM4T"), read_word("v8k2-qm4o"), read_word("v8k2-qm4")
    ('v8k2-qm4t', 'v8k2-qm40', None)
    """
    letters = written.strip().lower().replace("-", "").translate(_LOOK_ALIKES)
    if len(letters) != 2 * _HALF or any(letter not in _LETTERS for letter in letters):
        return None
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


INVITER, RELAY = b"inviter", b"relay"
"""Under which label each end proves the word."""


def word_run(label: bytes, word: str, nonce: bytes, relay: Key, inviter: Key, scalar: bytes) -> cpace.Run:
    """One end of a run of CPace by the word, between two keys that were proved before.

    `label`: this end's; `nonce` (16 bytes): the inviter's; `scalar` (32): this end's.
    """
    channel = cpace.prefixed(b"murmuration/1/relay-word", relay, inviter)
    return cpace.Run(label, (INVITER, RELAY), scalar, cpace.generator(word.encode(), channel, nonce), nonce)
