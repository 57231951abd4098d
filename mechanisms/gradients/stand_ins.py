"""Random stand-ins for rows, of the right shape and type: what they decide, no record has a part in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import torch

T = TypeVar("T")
Draw = Callable[..., torch.Tensor]
"""Draws floats of a shape, with a `generator` and a `dtype`."""


def stand_ins(row: torch.Tensor, rows: int, draw: Draw, generator: torch.Generator) -> torch.Tensor:
    """Returns (rows, ...) like `row` (1, ...): floats by `draw`, whole numbers 0 or 1."""
    shape = (rows, *row.shape[1:])
    if row.is_floating_point():
        return draw(shape, generator=generator, dtype=row.dtype).to(row.device)
    return torch.randint(0, 2, shape, generator=generator).to(row.dtype).to(row.device)


def far_off(row: torch.Tensor, rows: int, draw: Draw, generator: torch.Generator) -> torch.Tensor:
    """Returns stand-ins that are 100 times as large as others, where a model takes any number.

    What rows leak into each other may be less than the rounding of numbers near 1.
    """
    found = stand_ins(row, rows, draw, generator)
    return found * 100 if row.is_floating_point() and draw is torch.randn else found


def accepted(run: Callable[[Draw], T]) -> tuple[Draw, T]:
    """Returns the first draw that `run` accepts, and what it returns: who looks numbers up refuses some.

    Raises what `run` raises for zeros if it accepts no draw.
    """
    draws: tuple[Draw, ...] = (torch.randn, torch.rand)
    for draw in draws:
        with suppress(IndexError, RuntimeError):
            return draw, run(draw)
    return _zeros, run(_zeros)


def _zeros(shape: tuple[int, ...], *, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    del generator
    return torch.zeros(shape, dtype=dtype)
