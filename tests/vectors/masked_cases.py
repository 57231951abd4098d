"""The known answers about masked sessions, from the references alone: `generate` writes them."""

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

from tests.vectors import masked_reference as masked_ref
from tests.vectors import reference as ref

Json = dict[str, Any]
SID = bytes(range(50, 82))
KEYS = sorted(ref.public_key(bytes([number]) * 32) for number in (1, 2, 3, 4))
SELF_SEEDS = [bytes([0xC0 + number]) * 32 for number in range(4)]
PAIR_SEEDS = [bytes([0x70 + 16 * number]) * 32 for number in range(4)]
SELVES = [masked_ref.secret_from(seed) for seed in SELF_SEEDS]
PAIRS = [masked_ref.secret_from(seed) for seed in PAIR_SEEDS]
ROUNDINGS = [bytes([0x11 * (1 + number)]) * 32 for number in range(4)]
CHECK_SEED = bytes(range(200, 232))
BOUND = 4.0
THRESHOLD = 3
VECTORS = (
    [0.5, -0.0, 4.0, -4.0, 2.0**-149, 0.0999755859375, -1.25],
    [0.25, 0.0, 4.0, -4.0, -(2.0**-149), 3.0, 5.5],  # 5.5 is beyond the bound
    [-0.125, 2.0, 4.0, -4.0, 0.0, -3.0, 0.75],
    [1.0, -2.0, 4.0, -4.0, 3.5, 0.0, -7.0],
)
INCLUDED = (0, 2, 3)
"""Member 1 sent its vector to some, and fell silent."""
LARGE = 16_386
"""Words of a vector that four members cut into chunks: neither 4 nor 1024 divides it, with its count."""


def _session(bits: int = 32) -> masked_ref.Session:
    return masked_ref.Session(SID, KEYS, SELVES, PAIRS, BOUND, bits)


def large_vector(number: int) -> list[float]:
    """Multiples of 1/8 within the bound, another row for each member."""
    return [((7 * place + 3 * number) % 61 - 30) / 8 for place in range(LARGE)]


def _hexed(words: Sequence[int], bits: int = 32) -> str:
    return struct.pack(f"<{len(words)}{_CODES[bits]}", *words).hex()


_CODES = {16: "H", 32: "I"}


def shamir() -> Json:
    """Splits, and what recombining gives."""
    cases = []
    for secret, threshold, members, rand in (
        (SELVES[0], 3, 4, bytes(range(32))),
        (ref.P - 1, 1, 3, bytes(32)),
        (0, 4, 4, b"\xff" * 32),
        (PAIRS[3], 6, 7, bytes(range(7, 39))),
    ):
        polynomial = [secret, *masked_ref.coefficients(rand, threshold)]
        shares = [masked_ref.value(polynomial, number + 1) for number in range(members)]
        last = list(range(members - threshold, members))
        together = masked_ref.secret_of({number + 1: shares[number] for number in last})
        case = {"secret": hex(secret), "threshold": threshold, "members": members, "rand": rand.hex()}
        case |= {"coefficients": [hex(c) for c in polynomial[1:]], "some": last, "together": hex(together)}
        cases.append({**case, "shares": [share.to_bytes(32, "little").hex() for share in shares]})
    return {"cases": cases, "negative": _shamir_negative()}


def _shamir_negative() -> Json:
    polynomial = [SELVES[0], *masked_ref.coefficients(bytes(range(32)), 3)]
    shares = {number: masked_ref.value(polynomial, number) for number in (1, 2, 3)}
    wrong = {
        "one share less": {x: shares[x] for x in (1, 2)},
        "a share of another member": {1: shares[1], 2: shares[2], 4: shares[3]},
        "a share changed": {**shares, 2: shares[2] ^ 1},
    }
    none = [ref.P.to_bytes(32, "little"), b"\xff" * 32, bytes(31), bytes(33), b""]
    found: Json = {why: hex(masked_ref.secret_of(points)) for why, points in wrong.items()}
    return {**found, "no number of the field": [value.hex() for value in none]}


def masks_of_members() -> Json:
    """Public keys, commitments, share digests, seeds and the first words of each mask."""
    session, share = _session(), 2**250 + 17
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    bound = [masked_ref.commitment(secret, SID, key) for secret, key in zip(SELVES, KEYS, strict=True)]
    digests = {
        kind: [masked_ref.share_digest(share, SID, KEYS[2], kind.encode(), n).hex() for n in (0, 1, 63)]
        for kind in ("self", "pair")
    }
    seeds = {"selves": [seed.hex() for seed in SELF_SEEDS], "pairs": [seed.hex() for seed in PAIR_SEEDS]}
    return {
        "sid": SID.hex(),
        "keys": [key.hex() for key in KEYS],
        "seeds": seeds,
        "selves": [hex(secret) for secret in SELVES],
        "pairs": [hex(secret) for secret in PAIRS],
        "public": [public.hex() for public in session.public],
        "commitments": [value.hex() for value in bound],
        "share": hex(share),
        "share_digests": digests,
        "self_words": [_hexed(session.self_words(i, 9)) for i in range(4)],
        "pair_words": [{"of": i, "with": j, "added": _hexed(session.pair_words(i, j, 9))} for i, j in pairs],
    }


def masked_sum() -> Json:
    """A session of four from which one drops out, word by word."""
    return _sum(32)


def masked_sum_16() -> Json:
    """The same with words of 16 bits."""
    return _sum(16)


def _sum(bits: int) -> Json:
    session = _session(bits)
    encoded = [session.encoded(i, VECTORS[i], ROUNDINGS[i]) for i in range(4)]
    masked = [session.masked(i, encoded[i]) for i in range(4)]
    sums, carries = masked_ref.totals([masked[i] for i in INCLUDED], bits)
    result = session.unmasked(sums, INCLUDED)
    every = masked_ref.totals(masked, bits)
    whole = [word + 2**bits * carry for word, carry in zip(sums, carries, strict=True)]
    s = ref.scale(ref.Fraction(BOUND), 4, bits)
    return {
        "bound": BOUND,
        "vectors": VECTORS,
        "roundings": [rounding.hex() for rounding in ROUNDINGS],
        "encoded": [_hexed(words, bits) for words in encoded],
        "masked": [_hexed(words, bits) for words in masked],
        "included": INCLUDED,
        "total": _hexed(sums, bits),
        "carries": carries,
        "packed": masked_ref.packed(carries, 4).hex(),
        "check_seed": CHECK_SEED.hex(),
        "primes": masked_ref.check_primes(CHECK_SEED),
        "products": [masked_ref.products(CHECK_SEED, 0, words) for words in masked],
        "total_products": masked_ref.products(CHECK_SEED, 0, whole),
        "result": _hexed(result, bits),
        "mean": [ref.f32(float(ref.centred(word, bits) / s / len(INCLUDED))) for word in result[:7]],
        "of_all": {"total": _hexed(every[0], bits), "carries": every[1]},
    }


def carries() -> Json:
    """Carries as bytes: of all kinds of windows, with rare ones, and where these are too many."""
    cases = []
    for members, words, rare in (
        *((4, 9, ()), (5, 17, ()), (8, 16, ()), (9, 64, (0,)), (10, 65, (0, 9)), (16, 77, (3, 12, 15))),
        *((17, 40, (0,)), (64, 130, (0, 23, 40, 63)), (10, 8, (0, 9)), (64, 40, (0, 63) * 8), (4, 2, ())),
    ):
        middle = [(members - 1) // 2 + (place * place % 3) - 1 for place in range(words)]
        for place, carry in enumerate(rare):
            middle[3 * place % words] = carry
        cases.append(
            {"members": members, "carries": middle, "packed": masked_ref.packed(middle, members).hex()}
        )
    return {"cases": cases}


def masked_chunks() -> Json:
    """A vector in several chunks: digests of each, and products over chunks of many rows."""
    session = _session()
    encoded = [session.encoded(i, large_vector(i), ROUNDINGS[i]) for i in range(4)]
    masked = [session.masked(i, words) for i, words in enumerate(encoded)]
    sums, carries = masked_ref.totals([masked[i] for i in INCLUDED])
    length = -(-(LARGE + 1) // 16) * 4  # a fourth, in whole cipher blocks
    parts = [slice(start, start + length) for start in range(0, LARGE + 1, length)]
    whole = [word + 2**32 * carry for word, carry in zip(sums, carries, strict=True)]
    return {
        "words": [len(sums[part]) for part in parts],
        "masked": [[_digest(masked[i][part]) for part in parts] for i in range(4)],
        "totals": [_digest(sums[part]) for part in parts],
        "packed": [hashlib.sha256(masked_ref.packed(carries[part], 4)).hexdigest() for part in parts],
        "products": [
            [masked_ref.products(CHECK_SEED, c, masked[i][part]) for c, part in enumerate(parts)]
            for i in INCLUDED
        ],
        "total_products": [masked_ref.products(CHECK_SEED, c, whole[part]) for c, part in enumerate(parts)],
        "result": _digest(session.unmasked(sums, INCLUDED)),
    }


def _digest(words: Sequence[int]) -> str:
    return hashlib.sha256(struct.pack(f"<{len(words)}I", *words)).hexdigest()
