"""On a card the sum of clipped gradients is that of the CPU."""

import pytest
import torch

from mechanisms.gradients.clipped_sum import ClippedSum
from tests.unit.mechanisms.gradients.models import MODELS, built, clipped_one_by_one, objective


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no card here")
@pytest.mark.parametrize("kind", MODELS)
def test_private_gradients_on_a_card_are_those_of_the_cpu(kind, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # as a node sets it
    model, x, y = built(kind, 8)
    expected = clipped_one_by_one(model, x, y, 0.3)
    model, x, y = model.cuda(), x.cuda(), y.cuda()
    found = ClippedSum(objective(model, x, y), 0.3, 1000, 8.0)(x, y).vector
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)
