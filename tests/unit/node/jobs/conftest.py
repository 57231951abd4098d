"""Each test of a module with a generator RNG draws the same numbers, whichever tests ran before it."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def same_numbers(request):
    if hasattr(request.module, "RNG"):
        request.module.RNG.bit_generator.state = np.random.default_rng(31).bit_generator.state
