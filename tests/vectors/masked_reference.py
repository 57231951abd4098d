"""The arithmetic of a masked session once more, slowly: Python ints and lists, nothing of the product.

As `reference`, from which AES, HKDF, X25519 and the fixed point come. The linear check is written as the
definition has it: one coefficient for each word, one term after the other.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence

from tests.vectors.reference import DOMAIN, P, derive, encode, expand, mask_words, x25519

CHECKS = 3
COLUMNS = 1024


def coefficients(rand: bytes, threshold: int) -> list[int]:
    """Of degrees 1 to threshold - 1."""
    out = []
    for degree in range(1, threshold):
        place = degree.to_bytes(4, "big")
        wide = derive(rand, b"shamir", place, b"\0") + derive(rand, b"shamir", place, b"\1")
        out.append(int.from_bytes(wide, "little") % P)
    return out


def value(polynomial: Sequence[int], x: int) -> int:
    """The sum of c x^k."""
    return sum(c * pow(x, k, P) for k, c in enumerate(polynomial)) % P


def secret_of(points: Mapping[int, int]) -> int:
    """Newton's divided differences through all points, then the value at 0."""
    xs, rows = list(points), list(points.values())
    newton = [rows[0]]
    for order in range(1, len(xs)):
        rows = [(rows[k + 1] - rows[k]) * pow(xs[k + order] - xs[k], -1, P) % P for k in range(len(rows) - 1)]
        newton.append(rows[0])
    total, basis = 0, 1
    for c, x in zip(newton, xs, strict=True):
        total, basis = (total + c * basis) % P, basis * -x % P
    return total


def secret_from(seed: bytes) -> int:
    """Bits 254 and 255 are cut off."""
    return int.from_bytes(seed, "little") & (1 << 254) - 1


def mask_key(secret: int) -> bytes:
    """The public key."""
    return x25519(secret.to_bytes(32, "little"))


def commitment(secret: int, sid: bytes, sender: bytes) -> bytes:
    """SHA-256 over label, sid, sender and secret."""
    return hashlib.sha256(DOMAIN + b"commitment" + sid + sender + secret.to_bytes(32, "little")).digest()


def share_digest(share: int, sid: bytes, dealer: bytes, kind: bytes, number: int) -> bytes:
    """SHA-256 over label, sid, dealer, kind, number and share."""
    content = sid + dealer + kind + number.to_bytes(4, "big") + share.to_bytes(32, "little")
    return hashlib.sha256(DOMAIN + b"mask-share" + content).digest()


def self_seed(secret: int, sid: bytes, sender: bytes) -> bytes:
    """HKDF-Expand."""
    return derive(secret.to_bytes(32, "little"), b"self-mask", sid, sender)


def pair_seed(secret: int, other: bytes, sid: bytes, keys: Sequence[bytes]) -> bytes:
    """X25519, then HKDF with the sid as salt."""
    extracted = hmac.digest(sid, x25519(secret.to_bytes(32, "little"), other), "sha256")
    return expand(extracted, DOMAIN + b"pair-mask" + b"".join(sorted(keys)))


class Session:
    """Of members in key order, with their secrets of both kinds and their vectors."""

    def __init__(
        self,
        sid: bytes,
        keys: Sequence[bytes],
        selves: Sequence[int],
        pairs: Sequence[int],
        bound: float,
        bits: int = 32,
    ) -> None:
        self.bits = bits
        self.sid, self.keys, self.selves, self.pairs, self.bound = sid, keys, selves, pairs, bound
        self.numbers = range(len(keys))
        self.public = [mask_key(secret) for secret in pairs]

    def pair_words(self, i: int, j: int, count: int) -> list[int]:
        """What i adds for j, and what j takes away for i."""
        seed = pair_seed(self.pairs[i], self.public[j], self.sid, (self.keys[i], self.keys[j]))
        sign = 1 if i < j else -1
        return [sign * word % 2**self.bits for word in mask_words(seed, 0, count, self.bits)]

    def self_words(self, i: int, count: int) -> list[int]:
        """i's own mask."""
        return mask_words(self_seed(self.selves[i], self.sid, self.keys[i]), 0, count, self.bits)

    def encoded(self, i: int, vector: Sequence[float], rounding: bytes) -> list[int]:
        """The vector in fixed point, and the 1 that counts, in 32 bits together."""
        return [*encode(vector, self.bound, len(self.keys), rounding, self.bits), *[1] * (32 // self.bits)]

    def masked(self, i: int, words: Sequence[int]) -> list[int]:
        """y_i."""
        lines = [words, self.self_words(i, len(words))]
        lines += [self.pair_words(i, j, len(words)) for j in self.numbers if j != i]
        return [sum(column) % 2**self.bits for column in zip(*lines, strict=True)]

    def unmasked(self, total: Sequence[int], included: Sequence[int]) -> list[int]:
        """X: the total without the masks of those in it, and without their masks with the others."""
        out = list(total)
        for i in included:
            lines = [self.self_words(i, len(out))]
            lines += [self.pair_words(i, j, len(out)) for j in self.numbers if j not in included]
            for line in lines:
                out = [(x - y) % 2**self.bits for x, y in zip(out, line, strict=True)]
        return out


def totals(vectors: Sequence[Sequence[int]], bits: int = 32) -> tuple[list[int], list[int]]:
    """(sums modulo 2^bits, how often 2^bits fits into each)."""
    whole = [sum(column) for column in zip(*vectors, strict=True)]
    return [number % 2**bits for number in whole], [number >> bits for number in whole]


def packed(carries: Sequence[int], members: int) -> bytes:
    """Planes of bits, then what is beside the window; or, if they are not longer, a byte each."""
    bits = next(bits for bits in range(1, 5) if 4**bits >= 4 * members)
    window = range(max(0, (members - 2**bits + 1) // 2), members)[: 2**bits]
    length = -(-len(carries) // 8)
    short = b""
    for bit in range(bits):
        plane = sum((carry >> bit) % 2 << place for place, carry in enumerate(carries))
        short += plane.to_bytes(length, "little")
    for place, carry in enumerate(carries):
        short += b"" if carry in window else (64 * place + carry).to_bytes(4, "little")
    return short if len(short) < len(carries) else bytes(carries)


def _is_prime(number: int) -> bool:
    """Trial division, up to 2^15.5."""
    return all(number % divisor for divisor in range(3, int(number**0.5) + 2, 2))


def _prime_stream(seed: bytes) -> Iterator[int]:
    at = 0
    while True:
        candidate = 2**30 + mask_words(seed, at, 1)[0] // 4
        candidate += 1 - candidate % 2
        if _is_prime(candidate):
            yield candidate
        at += 1


def check_primes(seed: bytes) -> list[int]:
    """The first three different ones."""
    out: list[int] = []
    for prime in _prime_stream(derive(seed, b"check-primes")):
        out += [] if prime in out else [prime]
        if len(out) == CHECKS:
            return out
    raise StopIteration


def products(seed: bytes, index: int, words: Sequence[int]) -> list[int]:
    """The sum of u_row v_column word, for each check: `words` may be larger than the ring."""
    rows = -(-len(words) // COLUMNS)
    chunk_seed = derive(seed, b"check-chunk", index.to_bytes(4, "big"))
    drawn = [word // 4 for word in mask_words(chunk_seed, 0, CHECKS * (rows + COLUMNS))]
    out = []
    for check, prime in enumerate(check_primes(seed)):
        mine = drawn[check::CHECKS]
        u, v = mine[:rows], mine[rows:]
        out.append(sum(u[k // COLUMNS] * v[k % COLUMNS] * word for k, word in enumerate(words)) % prime)
    return out
