"""Shares: encoding, residuals, pieces, and what is refused before it changes anything."""

import numpy as np
import pytest

from protocol.aggregation.additive.shares import Shares, ShareSettings
from protocol.aggregation.additive.total import Total
from protocol.aggregation.fixed_point import FixedPoint
from protocol.crypto import prg
from protocol.errors import NotFiniteError, RemoteProtocolError
from protocol.vectors.pieces import PIECE_WORDS, piece, piece_count, raw
from protocol.vectors.ring import NARROW, RINGS, WIDE
from tests.parts import completed, machines, mean_of, members, vector

KINDS = ["seed", "ring", "float"]
SEED, OTHER = b"\x01" * 32, b"\x02" * 32


def shares_of(kind: str, count: int = 3) -> Shares:
    return ShareSettings(kind, 4.0, 100.0).for_group(count)


# -- fixed point ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [0.0, -1.0, float("inf"), float("nan")])
def test_a_bound_is_positive_and_finite(bound):
    with pytest.raises(ValueError, match="bound"):
        FixedPoint(bound, 3)


@pytest.mark.parametrize(("ring", "most"), [(WIDE, 2**15 - 1), (NARROW, 2**7 - 1)])
def test_a_group_leaves_room_for_each_summand(ring, most):
    for count in (0, most + 1):
        with pytest.raises(ValueError, match=f"must be 1 to {most}: words have {ring.bits} bits$"):
            FixedPoint(1.0, count, ring)


@pytest.mark.parametrize("count", [1, 3, 7, 64, 127])
@pytest.mark.parametrize("ring", RINGS.values())
@pytest.mark.parametrize("value", [4.0, -4.0, 1e30, -1e30])
def test_a_whole_group_at_the_bound_or_beyond_it_does_not_wrap(count, ring, value, monkeypatch):
    for draw in (0, 2**32 - 1):  # the least and the largest rounding
        monkeypatch.setattr(prg, "words", lambda *_, draw=draw: np.array([draw], dtype="<u4"))
        point = FixedPoint(4.0, count, ring)
        words, _ = point.encode(np.array([value], dtype="<f4"), SEED)
        total = sum((words for _ in range(count)), np.zeros(1, dtype=ring.word))
        mean = np.empty(1, dtype=point.result)
        point.decode(total, count, mean)

        assert count * int(words.view(ring.number)[0]) == int(total.view(ring.number)[0])
        assert mean[0] == pytest.approx(np.sign(value) * 4.0, abs=1 / point.scale + 4 * 2.0**-24)


@pytest.mark.parametrize("rounded", ["as it should be", "down", "to the nearest"])
def test_rounding_is_unbiased_and_its_variance_at_most_a_quarter_of_a_squared_step(rounded, monkeypatch):
    drawn = {"down": 0, "to the nearest": 2**31}.get(rounded)
    if drawn is not None:
        monkeypatch.setattr(prg, "words", lambda _, __, count: np.full(count, drawn, dtype="<u4"))
    point = FixedPoint(4.0, 10, NARROW)
    x = np.repeat(np.linspace(-4, 4, 61, dtype="<f4"), 1 << 11)  # 61 fractions of a step, each often
    words, _ = point.encode(x, SEED)
    error = (words.view("<i2") - x.astype(np.float64) * point.scale).reshape(61, -1)
    bias = np.abs(error.mean(axis=1)).max()  # its standard error is at most 0.011

    assert np.abs(error).max() < 1
    assert error.var(axis=1).max() < 0.25 * 1.01
    assert (bias < 5 * 0.011) == (drawn is None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_finite_number_is_refused_before_anything_is_encoded(kind, value):
    with pytest.raises(NotFiniteError, match="nothing is offered"):
        shares_of(kind).encode(np.array([0.0, value, 1.0], dtype="<f4"), SEED)


@pytest.mark.parametrize("kind", KINDS)
def test_the_offered_vector_itself_is_left_as_it_is(kind):
    offered = np.array([5.0, -0.0, 1.0], dtype="<f4")
    shares_of(kind).subtract(shares_of(kind).encode(offered, SEED)[0], OTHER)

    assert offered.tolist() == [5.0, 0.0, 1.0]


# -- shares --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [1, 5, PIECE_WORDS + 3])
def test_a_share_that_is_taken_out_and_put_back_leaves_nothing(kind, dimension):
    shares = shares_of(kind)
    accumulator = shares.empty(dimension)
    shares.subtract(accumulator, SEED)
    assert np.count_nonzero(accumulator) >= dimension - 1
    for index in range(shares.payload_count(dimension)):
        shares.absorb(accumulator, index, shares.payload(SEED, dimension, index))

    assert not accumulator.any()


def test_a_seed_is_one_piece_and_words_are_as_many_as_the_vector_has():
    assert [shares_of(kind).payload_count(PIECE_WORDS + 1) for kind in KINDS] == [1, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 4, 19, 21, 31, 33])
def test_a_piece_of_the_wrong_length_is_refused_and_changes_nothing(kind, size):
    shares = shares_of(kind)
    accumulator = shares.empty(5)

    with pytest.raises(RemoteProtocolError, match="bytes"):
        shares.absorb(accumulator, 0, bytes(size))
    assert not accumulator.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 100.001, -101.0])
def test_a_float_share_beyond_what_any_honest_member_draws_is_refused(value):
    shares = shares_of("float")
    accumulator = shares.empty(2)

    with pytest.raises(RemoteProtocolError, match="beyond"):
        shares.absorb(accumulator, 0, np.array([1.0, value], dtype="<f4").tobytes())
    assert not accumulator.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6, -3e38])
def test_a_partial_sum_of_floats_beyond_what_any_honest_member_sends_is_refused(value):
    keys = tuple(key.public for key in members(3))
    total = Total(shares_of("float"), 2, keys)

    with pytest.raises(RemoteProtocolError, match="beyond"):
        total.add(keys[0], 0, np.array([1.0, value], dtype="<f4").tobytes())
    assert total.missing() == keys


def test_any_words_are_a_partial_sum_in_the_ring():
    shares_of("ring").check(b"\xff" * 8)


def test_floats_are_drawn_from_minus_max_share_value_up_to_it():
    drawn = np.frombuffer(shares_of("float").payload(SEED, 4096, 0), dtype="<f4")

    assert -100 <= drawn.min() < -99
    assert 99 < drawn.max() < 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [4096, PIECE_WORDS])
def test_two_parts_of_equal_shape_get_independent_shares(kind, words):
    """The fault of the reference system: one seed for every tensor, so equal shapes got equal masks."""
    shares = shares_of(kind)
    residual = shares.encode(np.zeros(2 * words, dtype="<f4"), SEED)[0]
    for recipient in (OTHER, b"\x03" * 32):
        shares.subtract(residual, recipient)
    first, second = (residual[part].astype(np.float64) for part in (slice(words), slice(words, None)))

    assert np.count_nonzero(first == second) <= 2
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / np.sqrt(words)  # 6 standard deviations


def test_an_unknown_kind_of_share_is_an_error_that_names_the_kinds():
    with pytest.raises(ValueError, match='"tree" is not one of "seed", "ring", "float"'):
        ShareSettings("tree", 4.0, 100.0).for_group(3)


# -- sums ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_several_pieces_add_up_like_one(kind):
    dimension = PIECE_WORDS + 3
    vectors = [vector(number, dimension) for number in range(3)]
    mean = mean_of(completed(machines(3, dimension, ShareSettings(kind, 4.0, 100.0)), vectors)[0])

    tolerance = 1e-3 if kind == "float" else 1e-6
    np.testing.assert_allclose(mean, np.mean(vectors, axis=0, dtype=np.float64), atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_a_total_takes_each_piece_of_each_member_once(kind):
    keys = tuple(key.public for key in members(3))
    shares = shares_of(kind)
    total = Total(shares, 5, keys)
    payload = raw(shares.encode(vector(0), SEED)[0], piece(5, 0))
    total.add(keys[1], 0, payload)

    with pytest.raises(RemoteProtocolError, match="here already"):
        total.add(keys[1], 0, payload)
    with pytest.raises(RemoteProtocolError, match="has 16 bytes"):
        total.add(keys[0], 0, payload[:16])
    assert total.missing() == (keys[0], keys[2])


def test_floats_are_added_in_key_order_however_they_come():
    keys = tuple(key.public for key in members(3))
    lines = [np.array([line], dtype="<f4") for line in (300.0, -299.99997, 3e-5)]
    means = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        total = Total(shares_of("float"), 1, keys)
        for place in order:
            total.add(keys[place], 0, lines[place].tobytes())
        means.add(total.result().tobytes())

    assert len(means) == 1


def test_a_model_of_nothing_has_a_mean_of_nothing():
    total = Total(shares_of("seed"), 0, ())

    assert (total.missing(), len(total.result()), piece_count(0)) == ((), 0, 0)
