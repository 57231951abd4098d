"""What mechanisms have in common: the setting they are made for, and the one that does nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.mechanism import Unprotected
from tests.unit.mechanisms.settings import setting, vector, words


def test_none_offers_the_update_as_it_is():
    fresh = vector(1.5, -2.0)
    chosen = Unprotected()
    assert chosen.offer(fresh, (), words()).vector is fresh
    assert chosen.aggregated(fresh, 3, ((1.0,),)) == ((1.0,),)
    assert (chosen.name, chosen.guarantee, chosen.bound, chosen.gradient) == ("none", None, 0.0, None)
    assert (chosen.per_offer, chosen.per_training) == ((), ())
    assert "no noise" in chosen.protects


def test_the_steps_of_a_round():
    assert setting(rows=300, batch_size=16, epochs=2).steps == 2 * 19
    assert setting(rows=304, batch_size=16, epochs=3).steps == 3 * 19
    assert setting(rows=5, batch_size=16, epochs=1).steps == 1


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"epsilon": 0}, "epsilon = 0 is not allowed: a number above 0"),
        ({"epsilon": math.nan}, "epsilon = nan is not allowed"),
        ({"delta": 1.0}, "delta = 1.0 is not allowed: a number above 0 and below 1"),
        ({"clipping_radius": -1}, "clipping_radius = -1 is not allowed"),
        ({"window": 0}, "window = 0 is not allowed: a whole number of at least 1"),
        ({"rounds": 0}, "rounds = 0 is not allowed"),
        ({"rows": 0}, "rows = 0 is not allowed"),
        ({"batch_size": 0}, "batch_size = 0 is not allowed"),
        ({"epochs": 0}, "epochs = 0 is not allowed"),
        ({"sizes": ()}, r"sizes = \(\) is not allowed"),
        ({"sizes": (3, 0)}, r"sizes = \(3, 0\) is not allowed"),
    ],
)
def test_a_setting_that_can_not_be(values, error):
    with pytest.raises(ValueError, match=error):
        setting(**values)


@pytest.mark.parametrize("values", [{"epsilon": "8"}, {"window": True}, {"rounds": 2.0}])
def test_a_setting_of_other_types(values):
    with pytest.raises(TypeError, match=next(iter(values))):
        setting(**values)


def test_words_of_a_seed_repeat():
    first, second = np.empty(8, np.uint32), np.empty(8, np.uint32)
    words(3).fill(first)
    words(3).fill(second)
    assert np.array_equal(first, second)
