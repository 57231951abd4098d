"""The decoded sum is within n/s of the float64 sum, for any offers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.fixed_point import FixedPoint
from tests.parts import completed, machines, mean_of

BOUND = 4.0
ENDS = st.sampled_from([BOUND, -BOUND, -0.0, 0.0, 2.0**-149, -(2.0**-149)])
WITHIN = st.floats(-BOUND, BOUND, width=32) | ENDS
SEEDS = st.binary(min_size=32, max_size=32)
SLACK = 1 + 1e-6  # the product x s is a float64: off by up to 2^-24 of a unit


@st.composite
def groups(draw, elements=WITHIN):
    """Draws (n, d) float32: also d < n, and d that n does not divide."""
    members, dimension = draw(st.integers(3, 7)), draw(st.integers(1, 9))
    return draw(arrays(np.float32, (members, dimension), elements=elements))


@given(groups(), SEEDS)
def test_the_decoded_sum_is_within_n_over_s_of_the_exact_one(vectors, seed):
    point = FixedPoint(BOUND, len(vectors))
    total = np.zeros(vectors.shape[1], dtype="<u4")
    for number, x in enumerate(vectors):
        total += point.encode(x, bytes([number]) + seed[1:])[0]
    error = np.abs(point.decode_sum(total) - vectors.astype(np.float64).sum(axis=0))
    assert error.max() <= SLACK * len(vectors) / point.scale


@given(arrays(np.float32, 5, elements=st.floats(allow_nan=False, allow_infinity=False, width=32)), SEEDS)
def test_values_beyond_the_bound_count_as_the_bound(vector, seed):
    point = FixedPoint(BOUND, 3)
    words, clipped = point.encode(vector, seed)
    error = np.abs(words.view("<i4") / point.scale - np.clip(vector.astype(np.float64), -BOUND, BOUND))
    assert clipped == np.count_nonzero(np.abs(vector.astype(np.float64)) > BOUND)
    assert error.max() <= SLACK / point.scale


@settings(max_examples=15, deadline=None)
@given(groups(), st.sampled_from(["seed", "ring"]))
def test_a_session_in_the_ring_is_exact_within_the_rounding(vectors, kind):
    n, dimension = vectors.shape
    shares = ShareSettings(kind, BOUND, 100.0)
    results = completed(machines(n, dimension, shares), list(vectors))
    exact = vectors.astype(np.float64).mean(axis=0)
    unit = 1 / FixedPoint(BOUND, n).scale
    for actions in results:  # the mean is float32
        assert np.abs(mean_of(actions) - exact).max() <= SLACK * unit + BOUND * 2.0**-24


@settings(max_examples=10, deadline=None)
@given(groups())
def test_a_session_of_floats_is_within_a_thousandth_and_the_same_for_all(vectors):
    n, dimension = vectors.shape
    results = completed(machines(n, dimension, ShareSettings("float", BOUND, 100.0)), list(vectors))
    exact = vectors.astype(np.float64).mean(axis=0)
    assert len({mean_of(actions).tobytes() for actions in results}) == 1
    assert np.abs(mean_of(results[0]) - exact).max() <= 1e-3
