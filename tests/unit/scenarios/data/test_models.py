import numpy as np
import pytest
import torch
from torch.nn import functional

from node.data.dataset import Dataset
from node.task.sections import ModelSection
from node.training.build import build
from node.training.trainer import read_vector
from scenarios.clients.gradients import Gradients, Product
from scenarios.data.models import SmallCNN

ROWS = 30


def images(side: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """Makes images x (n, 1, side, side) and labels y (n,)."""
    rng = np.random.default_rng(0)
    return rng.random((ROWS, 1, side, side), np.float32), rng.integers(0, 10, ROWS)


def model(side: int = 28) -> torch.nn.Module:
    x, y = (torch.from_numpy(array) for array in images(side))
    section = ModelSection("scenarios.models:SmallCNN", {"outputs": 10, "channels": 4, "side": side})
    return build(section, 0, Dataset(x, y, x, y, "test", 10, ""))


@pytest.mark.parametrize("side", [28, 13, 5])
def test_it_is_a_convolution_and_a_linear_layer(side):
    cnn = model(side)
    x = torch.from_numpy(images(side)[0])
    kernels = cnn.convolution.weight.view(4, 1, 5, 5)
    maps = torch.relu(functional.conv2d(x, kernels, cnn.convolution.bias, stride=2))
    expected = cnn.last(maps.flatten(2).transpose(1, 2).flatten(1))  # by place, then by channel
    torch.testing.assert_close(cnn(x), expected)


def test_it_has_as_many_parameters_as_the_report_says_and_its_gradients_are_stacked_products():
    assert read_vector(SmallCNN(10), "*").size == 23_466
    with pytest.raises(ValueError, match=r"side = 4 is not allowed: at least 5 pixels"):
        SmallCNN(10, side=4)
    x, y = images()
    cnn = SmallCNN(10)
    gradients = Gradients(cnn, functional.cross_entropy, torch.from_numpy(x[:1]))
    weights = torch.from_numpy(read_vector(cnn, "*")).expand(2, -1)
    batch = torch.from_numpy(x.reshape(2, 15, 1, 28, 28)), torch.from_numpy(y.reshape(2, 15))
    parts, _ = gradients(weights, *batch, None)
    assert sum(isinstance(part, Product) for part in parts) == 2
