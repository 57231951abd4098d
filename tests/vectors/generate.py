"""Writes the known answers beside it, from the reference alone: python -m tests.vectors.generate."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.vectors import masked_cases
from tests.vectors import reference as ref
from tests.vectors.blake3_reference import blake3

HERE = Path(__file__).parent
SEED = bytes(range(32))
OTHER_SEED = bytes(range(100, 132))
PARAMETERS = '{"model":"m","shares":"seed"}'
VECTORS = (
    [0.5, -0.0, 4.0, -4.0, 2.0**-149, 0.0999755859375, -1.25],
    [0.25, 0.0, 4.0, -4.0, -(2.0**-149), 3.0, 5.5],  # 5.5 is beyond the bound
    [-0.125, 2.0, 4.0, -4.0, 0.0, -3.0, 0.75],
)
BOUND = 4.0
LIMIT = 100.0
ATTEMPT = 7
Json = dict[str, Any]


def masks() -> Json:
    places = [(0, 1), (0, 8), (3, 6), (4, 4), (1023, 5), (2**18, 4), (2**18 * 4095 + 1, 3)]
    cases = [
        {"seed": seed.hex(), "start": start, "words": ref.mask_words(seed, start, count)}
        for seed in (SEED, OTHER_SEED, bytes(32), b"\xff" * 32)
        for start, count in places
    ]
    flipped = bytes([SEED[0] ^ 1]) + SEED[1:]
    negative = [
        {"why": "one bit of the seed differs", "seed": flipped.hex(), "start": 0},
        {"why": "another place in the stream", "seed": SEED.hex(), "start": 8},
        {"why": "another seed", "seed": OTHER_SEED.hex(), "start": 0},
    ]
    return {"cases": cases, "negative": [{**case, "not": cases[1]["words"]} for case in negative]}


def rounding() -> Json:
    cases = []
    for vector in VECTORS:
        for members, bound in ((3, BOUND), (10, 1.0), (64, 0.5)):
            words = ref.encode(vector, bound, members, SEED)
            clipped = sum(abs(x) > bound for x in vector)
            cases.append(
                {"vector": vector, "bound": bound, "members": members, "words": words, "clipped": clipped}
            )
    refused = [{"why": "not a number", "value": "nan"}, {"why": "infinite", "value": "-inf"}]
    return {"seed": SEED.hex(), "cases": cases, "negative": refused}


class Member:
    """A member's secrets, and the records they lead to."""

    def __init__(self, number: int) -> None:
        self.secret = bytes([number]) * 32
        self.ephemeral_secret = bytes([0x40 + number]) * 32
        self.rand = bytes([0x80 + number]) * 32
        self.key = ref.public_key(self.secret)
        self.ephemeral = ref.x25519(self.ephemeral_secret)
        self.number = number

    def announce(self, initial: list[Any], following: bool = False, bound: Sequence[bytes] = ()) -> list[Any]:
        n, parameters = self.number, ref.parameters_hash(PARAMETERS)
        fields: list[Any] = [self.key, f"127.0.0.1:{7000 + n}", "digits", parameters, 3, bytes([n]) * 16]
        fields += [70_000 + n, 2**40 + n, 200 + n, initial, False, following, list(bound), bytes(32)]
        return [*fields, ref.sign(self.secret, b"announce", [*fields, b""])]

    def ready(self, initial: list[Any], coordinator: bytes) -> list[Any]:
        fields = [self.announce(initial, bound=[OTHER_SEED] if self.number == 2 else []), self.ephemeral]
        fields += [bytes([self.number + 9]) * 16, coordinator, SEED, self.number == 1, [b"127.0.0.1:7009"]]
        return [*fields, ref.sign(self.secret, b"ready", [*fields, b""])]


MEMBERS = sorted((Member(number) for number in (1, 2, 3)), key=lambda member: member.key)
KEYS = [member.key for member in MEMBERS]
INITIAL = [4, ref.base_digest(ref.parameters_hash(PARAMETERS), 4, [0.5, -0.5]), 3, SEED, 2]
READYS = [member.ready(INITIAL, KEYS[0]) for member in MEMBERS]
RESIGNED = b"\xff" * 32
EXCUSED = [Member(4).announce(INITIAL, following=True, bound=[RESIGNED])]
SID = ref.session_id(ATTEMPT, READYS, EXCUSED, KEYS)
LATER = [6, ref.base_digest(ref.parameters_hash(PARAMETERS), 6, [0.25, -2.0]), 3, SEED, 6]
"""The base that the third step of the run builds on."""


def hexed(value: Any) -> Any:
    """Records for JSON: bytes as hex."""
    if isinstance(value, list):
        return [hexed(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value


def session() -> Json:
    group = [READYS, ATTEMPT, KEYS[0], EXCUSED, KEYS]
    blank = [*READYS[:2], [*READYS[2][:2], bytes(16), *READYS[2][3:]]]
    changed = {
        "another attempt": ref.session_id(ATTEMPT + 1, READYS, EXCUSED, KEYS),
        "a member less": ref.session_id(ATTEMPT, READYS[:2], EXCUSED, KEYS),
        "another nonce": ref.session_id(ATTEMPT, blank, EXCUSED, KEYS),
        "nobody excused": ref.session_id(ATTEMPT, READYS, [], KEYS),
        "an elector less": ref.session_id(ATTEMPT, READYS, EXCUSED, KEYS[:2]),
    }
    return {
        "parameters": PARAMETERS,
        "secrets": [member.secret.hex() for member in MEMBERS],
        "ephemeral_secrets": [member.ephemeral_secret.hex() for member in MEMBERS],
        "readys": hexed(READYS),
        "follower": hexed(MEMBERS[1].announce(INITIAL, following=True, bound=[RESIGNED])),
        "group": hexed([*group, ref.sign(MEMBERS[0].secret, b"group", [*group, b"", []]), []]),
        "sid": SID.hex(),
        "later": {"base": hexed(LATER), "sid": ref.step_id(SID, LATER).hex()},
        "contributors": ref.contributors_hash(KEYS).hex(),
        "negative": [{"why": why, "sid": sid.hex()} for why, sid in changed.items()],
    }


def sealing() -> Json:
    sender, recipient = MEMBERS[0], MEMBERS[1]
    key = ref.share_key(sender.ephemeral_secret, recipient.ephemeral, SID, sender.key, recipient.key)
    cases = []
    for index, plain in ((0, SEED), (1, b""), (4095, bytes(range(256)) * 2)):
        header = ref.share_header(SID, sender.key, recipient.key, index)
        sealed = ref.seal(key, index, header, plain)
        cases.append({"index": index, "plain": plain.hex(), "sealed": sealed.hex()})
    whys = ("sid", "sender", "recipient", "direction", "index", "header", "first bit", "last bit", "cut off")
    negative = [{"changed": why} for why in whys]
    return {"sender": 0, "recipient": 1, "sid": SID.hex(), "cases": cases, "negative": negative}


def _ring(vectors: Sequence[Sequence[float]]) -> tuple[list[list[int]], list[int], list[float]]:
    pairs = zip(MEMBERS, vectors, strict=True)
    partial = [ref.encode(x, BOUND, 3, ref.derive(m.rand, b"rounding")) for m, x in pairs]
    for i, member in enumerate(MEMBERS):
        for j, other in enumerate(MEMBERS):
            if i != j:
                share = ref.mask_words(ref.derive(member.rand, b"mask", other.key), 0, len(vectors[0]))
                partial[i] = [(x - y) % ref.RING for x, y in zip(partial[i], share, strict=True)]
                partial[j] = [(x + y) % ref.RING for x, y in zip(partial[j], share, strict=True)]
    total = [sum(column) % ref.RING for column in zip(*partial, strict=True)]
    s = ref.scale(ref.Fraction(BOUND), 3)
    return partial, total, [ref.f32(float(ref.centred(word) / s / 3)) for word in total]


def _float(vectors: Sequence[Sequence[float]]) -> tuple[list[list[float]], list[float], list[float]]:
    """Each accumulator loses its shares in key order, then takes in the others' in key order."""
    partial = [[ref.f32(max(-BOUND, min(BOUND, x))) for x in vector] for vector in vectors]
    shares = {
        (i, j): ref.float_share(ref.derive(m.rand, b"mask", o.key), len(vectors[0]), LIMIT)
        for i, m in enumerate(MEMBERS)
        for j, o in enumerate(MEMBERS)
    }
    for i in range(3):
        for j in (j for j in range(3) if j != i):
            partial[i] = [ref.f32(x - y) for x, y in zip(partial[i], shares[i, j], strict=True)]
    for i in range(3):
        for j in (j for j in range(3) if j != i):
            partial[i] = [ref.f32(x + y) for x, y in zip(partial[i], shares[j, i], strict=True)]
    total = [0.0] * len(vectors[0])
    for line in partial:
        total = [ref.f32(x + y) for x, y in zip(total, line, strict=True)]
    return partial, total, [ref.f32(x / 3) for x in total]


def _payload(kind: str, seed: bytes, count: int) -> bytes:
    if kind == "float":
        return struct.pack(f"<{count}f", *ref.float_share(seed, count, LIMIT))
    return seed if kind == "seed" else struct.pack(f"<{count}I", *ref.mask_words(seed, 0, count))


def _kind(kind: str) -> Json:
    count = len(VECTORS[0])
    partial, total, mean = _float(VECTORS) if kind == "float" else _ring(VECTORS)
    form = f"<{count}{'f' if kind == 'float' else 'I'}"
    first, second = MEMBERS[0], MEMBERS[1]
    key = ref.share_key(first.ephemeral_secret, second.ephemeral, SID, first.key, second.key)
    header = ref.share_header(SID, first.key, second.key, 0)
    plain = _payload(kind, ref.derive(first.rand, b"mask", second.key), count)
    sums = []
    for member, line in zip(MEMBERS, partial, strict=True):
        payload = struct.pack(form, *line)
        fields = [SID, member.key, ref.contributors_hash(KEYS), [blake3(payload)]]
        # the piece's index stands in the record, always 0 in what is signed
        signature = ref.sign(member.secret, b"sum", [*fields, b"", 0])
        sums.append({"payload": payload.hex(), "signature": signature.hex()})
    return {
        "kind": kind,
        "share_0_to_1": ref.seal(key, 0, header, plain).hex(),
        "sums": sums,
        "total": struct.pack(form, *total).hex(),
        "mean": struct.pack(f"<{count}f", *mean).hex(),
    }


def sums() -> Json:
    whys = {"contributors": "the contributors differ", "sid": "another session", "sender": "another sender"}
    return {
        "vectors": VECTORS,
        "rands": [member.rand.hex() for member in MEMBERS],
        "clip": BOUND,
        "max_share_value": LIMIT,
        "clipped": [sum(abs(x) > BOUND for x in vector) for vector in VECTORS],
        "kinds": [_kind(kind) for kind in ("seed", "ring", "float")],
        "negative": [
            {"why": why, "field": field}
            for field, why in {**whys, "pieces": "another piece's digest"}.items()
        ],
    }


def base() -> Json:
    parameters, vector = ref.parameters_hash(PARAMETERS), VECTORS[0]
    named = {"parameters": PARAMETERS, "parameters_hash": parameters.hex(), "generation": 4, "vector": vector}
    others = {
        "next generation": (parameters, 5, vector),
        "other parameters": (bytes(32), 4, vector),
        "0.0 for -0.0": (parameters, 4, [x + 0.0 for x in vector]),
    }
    negative = [{"why": why, "digest": ref.base_digest(*other).hex()} for why, other in others.items()]
    return {**named, "digest": ref.base_digest(parameters, 4, vector).hex(), "negative": negative}


def files() -> dict[str, Json]:
    """Every file by its name, as the reference yields it now."""
    makers = [masks, rounding, session, sealing, sums, base, masked_cases.shamir]
    makers += [masked_cases.masks_of_members, masked_cases.masked_sum]
    makers += [masked_cases.masked_sum_16, masked_cases.masked_chunks, masked_cases.carries]
    return {f"{maker.__name__}.json": maker() for maker in makers}


if __name__ == "__main__":
    for name, content in files().items():
        (HERE / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"{name} written")
