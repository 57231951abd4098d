"""The rows of one person, whose gradients are added and clipped together: a person is the unit of privacy.

A person with m rows has the least width T = 1, 2, 4, 8, ... of at least m, and T places in a block, of which
the last T - m hold zeros. Blocks have persons of one width. So what stands in a person's places follows from
the person's own rows, in their order, and whoever comes or goes moves other persons by whole places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from mechanisms.gradients.blocks import Gradients
from mechanisms.gradients.layers import RowGradients, grouped


def widths(rows: int) -> tuple[int, ...]:
    """Returns the widths of persons with up to so many rows: 1, 2, 4, ..."""
    return tuple(1 << power for power in range((rows - 1).bit_length() + 1))


@dataclass(frozen=True)
class Together:
    """Computes the gradients of persons of one `width`, by a method for single rows."""

    method: Gradients
    width: int

    def __call__(
        self, x: torch.Tensor, y: torch.Tensor, own: torch.Tensor
    ) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """Returns gradients of K persons by parameter name, and the losses (K, T) of their rows, else 0.

        x (K, T, ...), y (K, T, ...); `own` (K, T) bool says which places hold a row.
        """
        found, losses = self.method(x.flatten(0, 1), y.flatten(0, 1))
        away = ~own.flatten()
        gradients = {name: part.without(away).together(self.width) for name, part in found.items()}
        return gradients, torch.where(own, grouped(losses, self.width), 0.0)


@dataclass(frozen=True)
class OfWidth:
    """Persons of one width T: x (m, T, ...), y (m, T, ...), and which places hold a row, `own` (m, T)."""

    width: int
    x: torch.Tensor
    y: torch.Tensor
    own: torch.Tensor

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """What a method of this width takes: with one row each, just x and y (m, ...)."""
        return (self.x[:, 0], self.y[:, 0]) if self.width == 1 else (self.x, self.y, self.own)


def by_width(x: torch.Tensor, y: torch.Tensor, persons: torch.Tensor) -> Iterator[OfWidth]:
    """Yields the rows x (n, ...), y (n, ...) of `persons` (n,) whole numbers, the narrowest persons first."""
    _, numbers, counts = torch.unique(persons.to(x.device), return_inverse=True, return_counts=True)
    order = torch.argsort(numbers, stable=True)
    starts = counts.cumsum(0) - counts
    place = torch.empty_like(numbers)
    place[order] = torch.arange(len(x), device=x.device) - starts[numbers[order]]
    for width in widths(int(counts.max())) if len(x) else ():
        chosen = (counts <= width) & (2 * counts > width)
        if not chosen.any():
            continue
        rows = chosen[numbers]
        where = (chosen.cumsum(0) - 1)[numbers[rows]], place[rows]
        shape = int(chosen.sum()), width
        own = torch.zeros(shape, dtype=torch.bool, device=x.device)
        own[where] = True
        yield OfWidth(width, _placed(x[rows], where, shape), _placed(y[rows], where, shape), own)


def _placed(
    values: torch.Tensor, where: tuple[torch.Tensor, torch.Tensor], shape: tuple[int, int]
) -> torch.Tensor:
    found = values.new_zeros(*shape, *values.shape[1:])
    found[where] = values
    return found
