"""Scattering features of images, and a linear layer on them.

A scattering transform (Mallat 2012; Bruna & Mallat 2013) is a convolutional network with fixed filters:
moduli of wavelet coefficients, averaged. It learns nothing, so it costs no privacy, and a linear layer on it
is more accurate under record-level privacy than a network that has to be trained (Tramer & Boneh 2021).

The filters, in pixels u, with theta = pi l / 8, v the rotation of u by -theta, and the envelope
G_s(u) = exp(-(v1^2 + slant^2 v2^2) / (2 s^2)):

    phi      G_s / (2 pi s^2),                              s = 0.8 2^(J - 1), slant = 1
    psi_jl   slant (e^(i xi v1) - beta) G_s / (2 pi s^2),   s = 0.8 2^j, slant = 1/2, xi = 3 pi / 4 / 2^j

beta is such that the sum over all pixels is 0 (a Morlet wavelet). J = 2: there are features at every fourth
pixel, from the scales j = 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

SCALES, ANGLES = 2, 8  # J, and the number of orientations
STRIDE = 2**SCALES
PATHS = 1 + SCALES * ANGLES + ANGLES * ANGLES * SCALES * (SCALES - 1) // 2
"""81: the average, 16 moduli, and 64 moduli of moduli."""
_SIGMA, _SLANT, _FREQUENCY = 0.8, 0.5, 0.75 * math.pi


class Scattering(nn.Module):
    """Logits from scattering features: (n, *shape) -> (n, outputs), one linear layer after a fixed `body`.

    `shape` is (channels, height, width), height and width at least 8. Only `head` has parameters. With
    `model.body = "body"` a node computes the features of its rows once.
    """

    def __init__(self, shape: Sequence[int], outputs: int) -> None:
        super().__init__()
        if len(shape) != 3 or not all(type(size) is int and size > 0 for size in shape) or min(shape[1:]) < 8:
            raise ValueError(f"shape must be [channels, height, width], the last two 8 or more, not {shape}")
        if type(outputs) is not int or outputs < 1:
            raise ValueError(f"outputs must be a whole number above 0, not {outputs}")
        self.body = ScatteringFeatures(*shape[1:])
        self.head = nn.Linear(shape[0] * PATHS * (shape[1] // STRIDE) * (shape[2] // STRIDE), outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns outputs (n, outputs), logits for classes, of `images` (n, channels, height, width)."""
        outputs: torch.Tensor = self.head(self.body(images))
        return outputs


class ScatteringFeatures(nn.Module):
    """(n, channels, height, width) -> (n, channels 81 (height // 4) (width // 4)) features.

    Features of each row and channel are normalised in groups of three paths, to mean 0 and variance 1: no
    statistic of the data is needed.
    """

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self._size = height, width
        # Reflected edges, up to a multiple of the stride, so that no feature sees the opposite edge.
        self._padded = tuple(-(-(size + 2 * STRIDE) // STRIDE) * STRIDE for size in (height, width))
        # The filters' spectra on a periodic grid, `fine` and `coarse` for each angle.
        angles = [math.pi * angle / ANGLES for angle in range(ANGLES)]
        for scale, name in enumerate(("fine", "coarse")):
            spectra = torch.stack([torch.fft.fft2(morlet(self._padded, scale, angle)) for angle in angles])
            self.register_buffer(name, spectra.to(torch.complex64), persistent=False)
        for stride in (1, 2):
            spectrum = torch.fft.fft2(average(tuple(one // stride for one in self._padded), stride))
            self.register_buffer(f"average{stride}", spectrum.to(torch.complex64), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns the features of `images`."""
        paths = self.paths(images)  # (n, channels, 81, h, w)
        grouped = paths.flatten(0, 1).flatten(2).reshape(-1, PATHS // 3, 3 * math.prod(paths.shape[3:]))
        return functional.layer_norm(grouped, grouped.shape[2:]).reshape(len(images), -1)

    def paths(self, images: torch.Tensor) -> torch.Tensor:
        """Returns the averaged moduli (n, channels, 81, height // 4, width // 4), not normalised."""
        above, left = ((padded - size) // 2 for padded, size in zip(self._padded, self._size, strict=True))
        below, right = (self._padded[0] - self._size[0] - above, self._padded[1] - self._size[1] - left)
        whole = functional.pad(images, (left, right, above, below), mode="reflect").unsqueeze(2)
        spectrum = torch.fft.fft2(whole)
        first, second = self._moduli(spectrum, "fine", 1), self._moduli(spectrum, "coarse", 2)
        spectra = torch.fft.fft2(first)  # (n, channels, 8, ...)
        twice = [self._moduli(spectra[:, :, angle : angle + 1], "coarse", 2) for angle in range(ANGLES)]
        averaged = [
            self._averaged(spectrum, 1),
            self._averaged(spectra, 1),
            self._averaged(torch.fft.fft2(torch.cat([second, *twice], 2)), 2),
        ]
        paths = torch.cat(averaged, 2)
        rows, columns = (size // STRIDE for size in self._size)
        down, across = round(above / STRIDE), round(left / STRIDE)
        return paths[..., down : down + rows, across : across + columns]

    def _moduli(self, spectrum: torch.Tensor, name: str, stride: int) -> torch.Tensor:
        """|x * psi| for the 8 angles of a scale, at every `stride`-th pixel."""
        return torch.fft.ifft2(_folded(spectrum * self.get_buffer(name), stride)).abs()

    def _averaged(self, spectrum: torch.Tensor, stride: int) -> torch.Tensor:
        """x * phi at every fourth pixel, from the spectrum of x at every `stride`-th."""
        smoothed = spectrum * self.get_buffer(f"average{stride}")
        return torch.fft.ifft2(_folded(smoothed, STRIDE // stride)).real


def _folded(spectrum: torch.Tensor, stride: int) -> torch.Tensor:
    """The spectrum of every `stride`-th pixel: the mean over the copies that fall together."""
    if stride == 1:
        return spectrum
    *rest, rows, columns = spectrum.shape
    return spectrum.reshape(*rest, stride, rows // stride, stride, columns // stride).mean((-4, -2))


def morlet(size: tuple[int, ...], scale: int, angle: float) -> torch.Tensor:
    """psi on a periodic grid, (rows, columns) complex128, with its centre at (0, 0)."""
    sigma = _SIGMA * 2**scale
    wave = _periodic(size, 1, sigma, _SLANT, angle, _FREQUENCY / 2**scale)
    envelope = _periodic(size, 1, sigma, _SLANT, angle, 0.0)
    return wave - envelope * (wave.sum() / envelope.sum())


def average(size: tuple[int, ...], stride: int) -> torch.Tensor:
    """phi on a periodic grid of every `stride`-th pixel, (rows, columns) complex128."""
    return _periodic(size, stride, _SIGMA * 2 ** (SCALES - 1), 1.0, 0.0, 0.0)


def _periodic(
    size: tuple[int, ...], stride: int, sigma: float, slant: float, angle: float, frequency: float
) -> torch.Tensor:
    """slant e^(i xi v1) G / (2 pi s^2) stride^2, summed over those copies of the grid that matter."""
    rows, columns = size
    total = torch.zeros(rows, columns, dtype=torch.complex128)
    for row_copy in range(-2, 3):
        for column_copy in range(-2, 3):
            y = ((torch.arange(rows, dtype=torch.float64) + row_copy * rows) * stride).unsqueeze(1)
            x = ((torch.arange(columns, dtype=torch.float64) + column_copy * columns) * stride).unsqueeze(0)
            along, beside = (
                x * math.cos(angle) + y * math.sin(angle),
                y * math.cos(angle) - x * math.sin(angle),
            )
            envelope = torch.exp(-(along**2 + (slant * beside) ** 2) / (2 * sigma**2))
            total += envelope * torch.exp(1j * frequency * along)
    return total * (slant * stride**2 / (2 * math.pi * sigma**2))
