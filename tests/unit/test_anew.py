"""What a test begins with does not depend on other tests."""

import numpy as np
import pytest
import torch

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("again", range(5))
def test_a_test_draws_the_same_numbers_in_one_thread_whatever_ran_before_it(again):
    assert RNG.random() == np.random.default_rng(3).random()
    assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(0))
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
