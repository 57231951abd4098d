"""What mechanisms have in common: the setting they are made for, and the one that does nothing."""

import math

import pytest

from mechanisms.mechanism import Unprotected
from tests.unit.mechanisms.settings import refused, setting, vector, words


def test_none_offers_the_update_as_it_is():
    fresh = vector(1.5, -2.0)
    chosen = Unprotected()
    assert chosen.offer(fresh, (), words()).vector is fresh
    assert chosen.aggregated(fresh, 3, ((1.0,),)) == ((1.0,),)
    assert (chosen.name, chosen.guarantee, chosen.bound, chosen.gradient) == ("none", None, 0.0, None)
    assert (chosen.per_offer, chosen.per_training) == ((), ())
    assert "no noise" in chosen.protects


def test_the_steps_of_a_round():
    for rows, epochs, steps in ((300, 2, 2 * 19), (304, 3, 3 * 19), (5, 1, 1)):
        assert setting(rows=rows, batch_size=16, epochs=epochs).steps == steps


def test_the_steps_of_a_round_of_seconds_are_not_known():
    with pytest.raises(ValueError, match=r"which train\.seconds leaves open; set train\.epochs"):
        _ = setting(epochs=None).steps


def test_a_setting_that_can_not_be():
    refused(
        setting, epsilon=0, delta=1.0, clipping_radius=-1, window=0, rounds=0, rows=0, batch_size=0, epochs=0
    )
    refused(setting, epsilon=math.nan, sizes=())
    refused(setting, sizes=(3, 0))
    for values in ({"epsilon": "8"}, {"window": True}, {"rounds": 2.0}):
        with pytest.raises(TypeError, match=next(iter(values))):
            setting(**values)
