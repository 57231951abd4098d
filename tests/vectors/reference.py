"""The additive protocol once more, slowly: plain Python ints, bytes and fractions, nothing of the product.

Written from the specification and the RFCs, so that two implementations that share no line must agree on
every byte. Only AES's single block comes from a library. Only for tests: nothing here is constant-time.
"""

import hashlib
import hmac
import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

DOMAIN = b"murmuration/1/"
RING = 2**32


def pack(value: object) -> bytes:
    """The shortest msgpack form of a bool, an int from 0, bytes, text or a list."""
    match value:
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return _packed_int(value)
        case bytes():
            return _sized(len(value), {1: 0xC4, 2: 0xC5, 4: 0xC6}) + value
        case str():
            text = value.encode()
            short = bytes([0xA0 + len(text)]) if len(text) < 32 else None
            return (short or _sized(len(text), {1: 0xD9, 2: 0xDA, 4: 0xDB})) + text
        case list():
            short = bytes([0x90 + len(value)]) if len(value) < 16 else None
            return (short or _sized(len(value), {2: 0xDC, 4: 0xDD})) + b"".join(pack(item) for item in value)
        case _:
            raise TypeError(type(value).__name__)


def _packed_int(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    return _sized(value, {1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF})


def _sized(value: int, markers: Mapping[int, int]) -> bytes:
    size = next(size for size in markers if value < 256**size)
    return bytes([markers[size]]) + value.to_bytes(size, "big")


def mask_words(seed: bytes, start: int, count: int, bits: int = 32) -> list[int]:
    """Words of AES-256-CTR from any word on: counter blocks are enciphered one by one (NIST SP 800-38A)."""
    out, held = [], 128 // bits
    for block in range(start // held, (start + count + held - 1) // held):
        encryptor = Cipher(AES(seed), ECB()).encryptor()
        cipher = encryptor.update(block.to_bytes(16, "big")) + encryptor.finalize()
        out += [int.from_bytes(cipher[at : at + bits // 8], "little") for at in range(0, 16, bits // 8)]
    return out[start % held :][:count]


def expand(root: bytes, info: bytes) -> bytes:
    """32 bytes of HKDF-Expand with SHA-256 (RFC 5869, 2.3): one block is enough."""
    return hmac.digest(root, info + b"\x01", "sha256")


def derive(root: bytes, label: bytes, *context: bytes) -> bytes:
    """The product's label rule over `expand`."""
    return expand(root, DOMAIN + label + b"\0" + b"".join(context))


def scale(bound: Fraction, members: int, bits: int = 32) -> Fraction:
    """s: units per 1.0, exactly."""
    return Fraction((2 ** (bits - 1) - 1) // members - 1) / bound


def encode(vector: Sequence[float], bound: float, members: int, seed: bytes, bits: int = 32) -> list[int]:
    """q = floor(clip(x) s + u) in Z_2^bits, u the middle of a 2^-32 step, all in exact fractions."""
    limit = Fraction(bound)
    draws = mask_words(seed, 0, len(vector))
    out = []
    for x, draw in zip(vector, draws, strict=True):
        clipped = max(-limit, min(limit, Fraction(x)))
        out.append(floor(clipped * scale(limit, members, bits) + Fraction(2 * draw + 1, 2**33)) % 2**bits)
    return out


def centred(word: int, bits: int = 32) -> int:
    """The representative of a ring element between -2^(bits - 1) and 2^(bits - 1) - 1."""
    return word - 2**bits if word >= 2 ** (bits - 1) else word


def f32(value: float) -> float:
    """The nearest float32. One operation on float32 values, done in double, then this: IEEE's result."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def float_share(seed: bytes, count: int, limit: float) -> list[float]:
    """float32 in [-limit, limit) on a grid of 2^-23."""
    return [f32(f32((word >> 8) * 2.0**-23 - 1.0) * f32(limit)) for word in mask_words(seed, 0, count)]


P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def x25519(scalar: bytes, point: bytes = (9).to_bytes(32, "little")) -> bytes:
    """The Montgomery ladder, bit by bit."""
    k = (int.from_bytes(scalar, "little") & ((1 << 254) - 8)) | 1 << 254
    x1 = int.from_bytes(point, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for bit in reversed(range(255)):
        now = k >> bit & 1
        if swap != now:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = now
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little")


def _add(p: tuple[int, int, int, int], q: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _base_times(k: int) -> bytes:
    """k times the base point, compressed."""
    y = 4 * pow(5, -1, P) % P
    x = 15112221349535400772501151409588531511454012693041857206046113283949847762202
    total, power = (0, 1, 1, 0), (x, y, 1, x * y % P)
    while k:
        if k & 1:
            total = _add(total, power)
        power, k = _add(power, power), k >> 1
    inverse = pow(total[2], -1, P)
    x, y = total[0] * inverse % P, total[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _secret(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    return (int.from_bytes(digest[:32], "little") & ((1 << 254) - 8)) | 1 << 254, digest[32:]


def public_key(seed: bytes) -> bytes:
    """The Ed25519 public key of a 32-byte seed."""
    return _base_times(_secret(seed)[0])


def sign(seed: bytes, label: bytes, record: list[object]) -> bytes:
    """Signature over the domain, the label and the packed record."""
    message = DOMAIN + label + b"\0" + pack(record)
    a, prefix = _secret(seed)
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % L
    point = _base_times(r)
    h = int.from_bytes(hashlib.sha512(point + public_key(seed) + message).digest(), "little") % L
    return point + ((r + h * a) % L).to_bytes(32, "little")


def _quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) % RING
        s[z] ^= s[x]
        s[z] = (s[z] << turn | s[z] >> 32 - turn) % RING


def _chacha_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter]
    start += struct.unpack("<3I", nonce)
    state = list(start)
    for _ in range(10):
        for column in range(4):
            _quarter(state, column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            _quarter(state, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return struct.pack("<16I", *((x + y) % RING for x, y in zip(state, start, strict=True)))


def _poly1305(key: bytes, message: bytes) -> bytes:
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\x01", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def seal(key: bytes, index: int, header: bytes, plain: bytes) -> bytes:
    """AEAD encryption with the piece's index as nonce."""
    nonce = index.to_bytes(12, "little")
    blocks = range(-(-len(plain) // 64))
    stream = b"".join(_chacha_block(key, 1 + block, nonce) for block in blocks)
    cipher = bytes(x ^ y for x, y in zip(plain, stream, strict=False))
    padded = b"".join(part + bytes(-len(part) % 16) for part in (header, cipher))
    tag = _poly1305(_chacha_block(key, 0, nonce)[:32], padded + struct.pack("<2Q", len(header), len(cipher)))
    return cipher + tag


def share_key(scalar: bytes, other: bytes, sid: bytes, sender: bytes, recipient: bytes) -> bytes:
    """The key of one direction of one session: HKDF with the sid as salt."""
    extracted = hmac.digest(sid, x25519(scalar, other), "sha256")
    return expand(extracted, DOMAIN + b"share" + sender + recipient)


def share_header(sid: bytes, sender: bytes, recipient: bytes, index: int) -> bytes:
    """What a sealed share is bound to."""
    return b"share" + sid + sender + recipient + index.to_bytes(4, "big")


def session_id(
    attempt: int,
    readys: Sequence[list[Any]],
    excused: Sequence[list[Any]] = (),
    electors: Sequence[bytes] = (),
) -> bytes:
    """H(attempt, READYs in key order, whom the group excuses, whom a tracker named).

    READYs and announcements are lists of their fields, the signature last; a READY begins with one.
    """
    digest = hashlib.sha256(DOMAIN + b"sid" + attempt.to_bytes(4, "big"))
    for ready in sorted(readys, key=lambda ready: ready[0][0]):
        body = pack([*ready[:-1], b""])
        digest.update(hashlib.sha256(body + ready[-1]).digest())
    for announce in excused:
        digest.update(hashlib.sha256(b"excused" + pack([*announce[:-1], b""])).digest())
    for elector in electors:
        digest.update(hashlib.sha256(b"elector" + elector).digest())
    return digest.digest()


def step_id(run: bytes, base: list[Any]) -> bytes:
    """H(the run's sid, generation and digest of the base that a later step builds on)."""
    generation, digest = base[:2]
    return hashlib.sha256(DOMAIN + b"step" + run + struct.pack(">I", generation) + digest).digest()


def contributors_hash(keys: Sequence[bytes]) -> bytes:
    """H of all keys in order."""
    return hashlib.sha256(DOMAIN + b"contributors" + b"".join(sorted(keys))).digest()


def base_digest(parameters: bytes, generation: int, vector: Sequence[float]) -> bytes:
    """The name of a base model."""
    floats = struct.pack(f"<{len(vector)}f", *vector)
    return hashlib.sha256(DOMAIN + b"base" + parameters + generation.to_bytes(8, "big") + floats).digest()


def parameters_hash(parameters: str) -> bytes:
    """The name of a parameter set."""
    return hashlib.sha256(DOMAIN + b"parameters" + parameters.encode()).digest()
