"""The one place between progress and offer."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.mechanism import Unprotected, mechanism


def test_none_offers_the_update_as_it_is():
    fresh = np.array([1.5, -2.0], dtype=np.float32)
    chosen = mechanism("none")
    assert np.array_equal(chosen.offer(fresh), fresh)
    assert chosen == Unprotected()
    assert "no noise" in chosen.protects


def test_an_unknown_mechanism_is_named_with_what_is_allowed():
    with pytest.raises(ValueError, match=r"'aldp' is not in this version; allowed: 'none'"):
        mechanism("aldp")
