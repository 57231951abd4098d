"""Scattering features against a slow second implementation, in space and by sums over pixels."""

import cmath
import math

import numpy as np
import pytest
import torch

from node.models import Scattering
from node.models.scattering import ScatteringFeatures, average, morlet


def gabor(size, stride, sigma, slant, angle, frequency):
    """The filter at each pixel of a periodic grid, one pixel and one copy after another."""
    rows, columns = size
    grid = np.zeros(size, dtype=complex)
    for row in range(rows):
        for column in range(columns):
            for row_copy in (-2, -1, 0, 1, 2):
                for column_copy in (-2, -1, 0, 1, 2):
                    y, x = (row + row_copy * rows) * stride, (column + column_copy * columns) * stride
                    along = x * math.cos(angle) + y * math.sin(angle)
                    beside = -x * math.sin(angle) + y * math.cos(angle)
                    size_there = math.exp(-(along**2 + slant**2 * beside**2) / (2 * sigma**2))
                    grid[row, column] += size_there * cmath.exp(1j * frequency * along)
    return grid * slant * stride**2 / (2 * math.pi * sigma**2)


def wavelet(size, scale, angle):
    wave = gabor(size, 1, 0.8 * 2**scale, 0.5, angle, 0.75 * math.pi / 2**scale)
    envelope = gabor(size, 1, 0.8 * 2**scale, 0.5, angle, 0)
    return wave - wave.sum() / envelope.sum() * envelope


def convolved(image, kernel, stride):
    """Circular convolution at every `stride`-th pixel."""
    rows, columns = image.shape
    out = np.zeros((rows // stride, columns // stride), dtype=complex)
    for row in range(0, rows, stride):
        for column in range(0, columns, stride):
            turned = np.roll(kernel[::-1, ::-1], (row + 1, column + 1), (0, 1))
            out[row // stride, column // stride] = (image * turned).sum()
    return out


def slow_paths(image, above, left, below, right):
    """(81, h // 4, w // 4)."""
    whole = np.pad(image, ((above, below), (left, right)), mode="reflect")
    angles = [math.pi * number / 8 for number in range(8)]
    smooth = gabor(whole.shape, 1, 1.6, 1.0, 0, 0).real
    half = tuple(size // 2 for size in whole.shape)
    smooth_half = gabor(half, 2, 1.6, 1.0, 0, 0).real
    fine = [np.abs(convolved(whole, wavelet(whole.shape, 0, angle), 1)) for angle in angles]
    kernels = [wavelet(whole.shape, 1, angle) for angle in angles]
    coarse = [np.abs(convolved(whole, kernel, 2)) for kernel in kernels]
    twice = [np.abs(convolved(first, kernel, 2)) for first in fine for kernel in kernels]
    paths = [convolved(one, smooth, 4).real for one in (whole, *fine)]
    paths += [convolved(one, smooth_half, 2).real for one in (*coarse, *twice)]
    rows, columns = image.shape[0] // 4, image.shape[1] // 4
    return np.stack(paths)[:, 1 : 1 + rows, 1 : 1 + columns]


def test_paths_are_those_of_the_slow_one():
    images = torch.rand(2, 2, 8, 12, generator=torch.Generator().manual_seed(0))
    found = ScatteringFeatures(8, 12).paths(images)
    assert found.shape == (2, 2, 81, 2, 3)
    expected = slow_paths(images[1, 1].double().numpy(), 4, 4, 4, 4)
    assert found[1, 1].numpy() == pytest.approx(expected, abs=2e-6)


def test_filters_are_those_of_the_formulas():
    for scale in (0, 1):
        for number in (0, 3, 6):
            angle = math.pi * number / 8
            assert morlet((12, 16), scale, angle).numpy() == pytest.approx(
                wavelet((12, 16), scale, angle), abs=1e-12
            )
    assert average((12, 16), 1).sum().real == pytest.approx(1, abs=1e-3)
    assert abs(morlet((36, 36), 1, 0.3).sum()) < 1e-12


def test_features_are_normalised_in_groups_of_each_row_alone():
    images = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    body = ScatteringFeatures(28, 28)
    features = body(images)
    assert features.shape == (4, 81 * 49)
    groups = features.view(4, 27, 147)
    assert groups.mean(2).abs().max() < 1e-4
    assert torch.allclose(body(images[2:3]), features[2:3], atol=1e-4)
    assert not list(body.parameters())
    assert not body.state_dict()  # filters follow from the shape


def test_a_constant_image_has_no_wavelet_coefficients():
    paths = ScatteringFeatures(16, 16).paths(torch.full((1, 1, 16, 16), 0.7))
    assert paths[0, 0, 0].numpy() == pytest.approx(0.7, abs=1e-3)
    assert paths[0, 0, 1:].abs().max() < 1e-4


def test_features_hardly_change_when_an_image_moves_by_a_pixel():
    """What the average is for: half as much as the pixels themselves do."""
    image = torch.zeros(1, 1, 28, 28)
    image[0, 0, 8:20, 12:15] = 1.0
    moved = torch.roll(image, 1, 3)
    paths = ScatteringFeatures(28, 28).paths

    def change(before, after):
        return float((before - after).norm() / before.norm())

    assert change(paths(image), paths(moved)) < 0.5 * change(image, moved)


def test_the_model_is_a_linear_layer_on_them():
    model = Scattering([3, 32, 32], 10)
    assert sum(parameter.numel() for parameter in model.parameters()) == (3 * 81 * 64 + 1) * 10
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert Scattering([1, 30, 29], 2)(torch.rand(1, 1, 30, 29)).shape == (1, 2)


@pytest.mark.parametrize("shape", [[28, 28], [1, 7, 28], [1, 28, 28.0], [0, 28, 28]])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match="shape must be"):
        Scattering(shape, 10)
    with pytest.raises(ValueError, match="outputs must be"):
        Scattering([1, 28, 28], 0)
