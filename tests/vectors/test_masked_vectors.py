"""Masked sessions: the known answers are what the product yields."""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.carries import pack, unpack
from protocol.aggregation.masked.chunks import MaskedVector, masks_of
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.linear_check import Coefficients, add_up
from protocol.aggregation.masked.mask_keys import Kind
from protocol.crypto import shamir
from protocol.crypto.node_key import NodeKey
from protocol.crypto.prg import Stream
from protocol.errors import RemoteProtocolError
from protocol.vectors.pieces import Floats, Words
from protocol.vectors.ring import NARROW, WIDE, Ring
from protocol.vectors.shelf import in_memory
from tests.vectors import masked_cases

HERE = Path(__file__).parent
SID = masked_cases.SID
KEYS = sorted((NodeKey(bytes([number]) * 32) for number in (1, 2, 3, 4)), key=lambda key: key.public)
LARGE = Layout(masked_cases.LARGE, 4)


def load(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def number(value: str) -> int:
    return int(value, 16)


def words(value: str, ring: Ring = WIDE) -> Words:
    return np.frombuffer(bytes.fromhex(value), dtype=ring.word)


@pytest.mark.parametrize("case", load("shamir")["cases"], ids=lambda case: f"{case['threshold']}")
def test_shares_of_known_randomness_are_the_known_ones_and_give_the_known_secret(case):
    split = (number(case["secret"]), case["threshold"], case["members"], bytes.fromhex(case["rand"]))
    assert [shamir.to_bytes(share).hex() for share in shamir.split(*split)] == case["shares"]
    shares = [shamir.from_bytes(bytes.fromhex(case["shares"][place])) for place in case["some"]]
    assert case["together"] == case["secret"] == hex(shamir.combine(shares, shamir.weights(case["some"])))


def test_too_few_or_wrong_shares_give_the_known_wrong_numbers():
    case, negative = load("shamir")["cases"][0], load("shamir")["negative"]
    one, two, three = (shamir.from_bytes(bytes.fromhex(share)) for share in case["shares"][:3])
    yields = {
        "one share less": shamir.combine([one, two], shamir.weights([0, 1])),
        "a share of another member": shamir.combine([one, two, three], shamir.weights([0, 1, 3])),
        "a share changed": shamir.combine([one, two ^ 1, three], shamir.weights([0, 1, 2])),
    }
    assert {why: hex(value) for why, value in yields.items()} == {why: negative[why] for why in yields}
    assert case["secret"] not in {hex(value) for value in yields.values()}
    for data in negative["no number of the field"]:
        with pytest.raises(RemoteProtocolError, match="no number below"):
            shamir.from_bytes(bytes.fromhex(data))


@pytest.fixture(scope="module")
def known() -> Any:
    return load("masks_of_members")


def test_secrets_keys_in_order_and_commitments_are_the_known_ones(known):
    assert ([key.public.hex() for key in KEYS], known["sid"]) == (known["keys"], SID.hex())
    selves, pairs = (
        [mask_keys.secret_from(bytes.fromhex(seed)) for seed in known["seeds"][kind]]
        for kind in ("selves", "pairs")
    )
    bound = [mask_keys.commitment(secret, SID, key.public) for secret, key in zip(selves, KEYS, strict=True)]
    assert [hex(secret) for secret in selves] == known["selves"]
    assert [hex(secret) for secret in pairs] == known["pairs"]
    assert [mask_keys.public_key(secret).hex() for secret in pairs] == known["public"]
    assert [value.hex() for value in bound] == known["commitments"]


@pytest.mark.parametrize("kind", Kind)
def test_digests_of_shares_are_the_known_ones(known, kind):
    share, dealer = shamir.to_bytes(number(known["share"])), KEYS[2].public
    digests = [mask_keys.share_digest(share, SID, dealer, kind, place) for place in (0, 1, 63)]
    assert [digest.hex() for digest in digests] == known["share_digests"][kind.value.decode()]


def self_seeds() -> list[bytes]:
    pairs = zip(masked_cases.SELVES, KEYS, strict=True)
    return [mask_keys.self_seed(secret, SID, key.public) for secret, key in pairs]


@cache
def pair_seed(i: int, j: int) -> bytes:
    public = mask_keys.public_key(masked_cases.PAIRS[j])
    return mask_keys.pair_seed(
        mask_keys.private_key(masked_cases.PAIRS[i]), public, SID, KEYS[i].public, KEYS[j].public
    )


def test_masks_begin_with_the_known_words_and_those_of_pairs_cancel(known):
    for seed, expected in zip(self_seeds(), known["self_words"], strict=True):
        target = np.zeros(9, dtype="<u4")
        Stream(seed).add_to(target, 0)
        assert target.tobytes().hex() == expected
    for case in known["pair_words"]:
        target, i, j = np.zeros(9, dtype="<u4"), case["of"], case["with"]
        (Stream.add_to if i < j else Stream.subtract_from)(Stream(pair_seed(i, j)), target, 0)
        assert target.tobytes().hex() == case["added"]
        (Stream.add_to if j < i else Stream.subtract_from)(Stream(pair_seed(j, i)), target, 0)
        assert not target.any()


def masked_vector(member: int, x: Floats, layout: Layout) -> MaskedVector:
    """As the product makes it."""
    pairs = [None if other == member else pair_seed(member, other) for other in range(4)]
    of = masks_of(member, self_seeds()[member], pairs, masked_cases.ROUNDINGS[member])
    point = FixedPoint(masked_cases.BOUND, 4, layout.ring)
    return MaskedVector(x, of, point, layout, KEYS[member], SID, in_memory(0))


def unmask(total: Words, included: Iterable[int], start: int) -> Words:
    """X from a chunk of the total: own masks out, and those with who is missing."""
    out, missing = total.copy(), set(range(4)) - set(included)
    for i in included:
        Stream(self_seeds()[i]).subtract_from(out, start)
        for k in missing:
            (Stream.subtract_from if i < k else Stream.add_to)(Stream(pair_seed(k, i)), out, start)
    return out


RINGS_OF = {"masked_sum": WIDE, "masked_sum_16": NARROW}


@pytest.fixture(scope="module", params=RINGS_OF)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def case(name) -> Any:
    return load(name)


@pytest.fixture(scope="module")
def layout(name) -> Layout:
    return Layout(7, 4, ring=RINGS_OF[name])


@pytest.mark.parametrize("member", range(4))
def test_encoded_and_masked_vectors_are_the_known_ones(case, layout, member):
    x, point = np.array(case["vectors"][member], dtype="<f4"), FixedPoint(case["bound"], 4, layout.ring)
    encoded, clipped = point.encode(x, bytes.fromhex(case["roundings"][member]))
    made = masked_vector(member, x, layout)
    ones = np.ones(layout.ring.counts, dtype=layout.ring.word)
    assert (encoded.tobytes() + ones.tobytes()).hex() == case["encoded"][member]
    assert clipped == sum(abs(value) > case["bound"] for value in case["vectors"][member])
    assert made.words(0).tobytes().hex() == case["masked"][member]


def test_totals_and_carries_of_those_included_and_of_all_are_the_known_ones(case, layout):
    masked = [bytes.fromhex(line) for line in case["masked"]]
    total, carries = add_up([masked[member] for member in case["included"]], layout.words, layout.ring)
    assert (total.tobytes().hex(), carries.tolist()) == (case["total"], case["carries"])
    assert pack(carries, 4).hex() == case["packed"]
    assert unpack(bytes.fromhex(case["packed"]), layout.words, 4).tolist() == case["carries"]
    total, carries = add_up(masked, layout.words, layout.ring)
    assert {"total": total.tobytes().hex(), "carries": carries.tolist()} == case["of_all"]


@pytest.mark.parametrize("known", load("carries")["cases"], ids=lambda known: f"{known['members']}")
def test_carries_as_bytes_are_the_known_ones_and_read_again(known):
    carries, packed = np.array(known["carries"], dtype=np.uint8), bytes.fromhex(known["packed"])
    assert pack(carries, known["members"]) == packed
    assert unpack(packed, len(carries), known["members"]).tolist() == known["carries"]


def test_the_products_of_the_check_are_the_known_ones(case, layout):
    check = Coefficients(bytes.fromhex(case["check_seed"]), layout)
    products = [list(check.products(0, words(line, layout.ring))) for line in case["masked"]]
    carries = np.array(case["carries"], dtype=np.uint8)
    total = check.total_products(0, words(case["total"], layout.ring), carries)
    assert list(check.primes) == case["primes"]
    assert products == case["products"]
    assert list(total) == case["total_products"]
    assert check.agree([products[member] for member in case["included"]], total)
    assert not check.agree(products, total)


def test_the_result_without_the_missing_member_is_the_known_one(case, layout):
    total, point = words(case["total"], layout.ring), FixedPoint(case["bound"], 4, layout.ring)
    result = unmask(total, case["included"], 0)
    plain = sum(words(case["encoded"][member], layout.ring) for member in case["included"])
    assert result.tobytes().hex() == case["result"]
    np.testing.assert_array_equal(result, plain)
    assert result[-1] == len(case["included"])
    point.decode(result[:7], len(case["included"]), mean := np.empty(7, dtype="<f4"))
    assert mean.tolist() == case["mean"]
    out = total.copy()
    for member in case["included"]:
        Stream(self_seeds()[member]).subtract_from(out, 0)
    assert out[-1] != len(case["included"]), "with the missing member's mask key left out"


@pytest.fixture(scope="module")
def chunks() -> list[list[Words]]:
    """Each member's masked chunks, made in reverse order."""
    vectors = [np.array(masked_cases.large_vector(member), dtype="<f4") for member in range(4)]
    made = [masked_vector(member, x, LARGE) for member, x in enumerate(vectors)]
    return [[one.words(index) for index in reversed(range(LARGE.chunks))][::-1] for one in made]


def test_masked_chunks_are_the_known_ones(chunks):
    digests = [[hashlib.sha256(chunk.tobytes()).hexdigest() for chunk in line] for line in chunks]
    assert [LARGE.length(index) for index in range(LARGE.chunks)] == load("masked_chunks")["words"]
    assert digests == load("masked_chunks")["masked"]


def test_totals_products_and_results_of_chunks_are_the_known_ones(chunks):
    known, check = load("masked_chunks"), Coefficients(masked_cases.CHECK_SEED, LARGE)
    whole = hashlib.sha256()
    for index in range(LARGE.chunks):
        parts = [chunks[member][index] for member in masked_cases.INCLUDED]
        total, carries = add_up([part.tobytes() for part in parts], LARGE.length(index))
        products = [check.products(index, part) for part in parts]
        together = check.total_products(index, total, carries)
        whole.update(unmask(total, masked_cases.INCLUDED, LARGE.chunk(index).start).tobytes())

        assert hashlib.sha256(total.tobytes()).hexdigest() == known["totals"][index]
        assert hashlib.sha256(pack(carries, 4)).hexdigest() == known["packed"][index]
        assert [list(line) for line in products] == [line[index] for line in known["products"]]
        assert list(together) == known["total_products"][index]
        assert check.agree(products, together)
    assert whole.hexdigest() == known["result"]
