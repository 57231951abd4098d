"""Clipping of any vector: exactly within the radius, in the same direction, and idempotent."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mechanisms.noise.clipping import clip_l2, norm

VECTORS = arrays(np.float32, st.integers(1, 20), elements=st.floats(-(2.0**127), 2.0**127, width=32))


@given(VECTORS, st.floats(1e-28, 1e38))
def test_a_vector_is_left_or_scaled_to_the_radius_in_exact_arithmetic_and_once(vector, radius):
    clipped = clip_l2(vector, radius)
    assert sum(Fraction(float(value)) ** 2 for value in clipped) <= Fraction(radius) ** 2
    assert clip_l2(clipped, radius) is clipped
    if clipped is not vector:
        assert norm(clipped) >= radius * (1 - 1e-6)
        expected = vector.astype(np.float64) * (radius / norm(vector))
        assert np.allclose(clipped, expected, rtol=1e-6, atol=1e-44)
