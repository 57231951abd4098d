"""Sums of gradients of single rows, each clipped to an L2 norm: how far a row moves what is really computed.

Unit of privacy: one record (row). Neighbours: add or remove it. Norm: L2 over all parameters together.

What is computed. Rows are taken in blocks of always K rows, empty places filled up with zeros. For each row
i, layers give numbers a_i, e_i (`layers`) or the gradient itself; g_i is the exact gradient that these
numbers stand for, n_i >= |g_i| / (1 + nu) its norm as computed, c_i = min(1, C' / n_i) its weight, 0 for an
empty place and for a row whose n_i is not finite. The result S is the sum of c_i g_i as float64 matrix
products give it.

Sensitivity. Let a data set have at most B rows, and add one row to a batch. 1. No other row's c_i g_i
changes: they follow from the row, from K, and from the row's lane. The lane is a hash of
   the row; a row of lane l is at a place l, l + 16, l + 32 ... of a block. This is an assumption about the
   machine's linear algebra: that a row's numbers depend neither on the other rows in its block nor on which
   of these places it has. It is tested bit by bit, on the task's model, before the first step. Without the
   padding, or in other places, it does not hold: blocks of another length are computed by other code, and so
   are rows at another distance from a boundary of 64 bytes. Where even places do not matter there is one lane
   for all.
2. The new row's |c g| is at most C' (1 + nu).
3. An element of S is a sum of at most K t products a block, t the positions of a layer, and of the blocks.
However a
   conventional algorithm orders them, its error is at most gamma_N times the sum of the terms' absolute
   values, N = K t + B / K + 8 (Higham 2002, section 3.1). Taken over all elements, by Minkowski's inequality,
   the error has an L2 norm of at most gamma_N sum_i c_i m_i, where m_i, the sum of the terms' norms, is at
   most rho n_i (rho = 1 for single products; `Positions` and `Lookup` count a row as at least m_i / rho
   long). Both batches have it: 2 gamma_N B rho C' in all.
So S moves by at most C' (1 + nu + 2 gamma_N B rho), and C' is what makes this C. In float32 the last term
would exceed C at 30,000 rows; in float64 it is below 1e-6 for a million.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mechanisms.arguments import count, positive
from mechanisms.gradients.blocks import Block
from mechanisms.gradients.layers import RowGradients, gamma, in_float64
from mechanisms.gradients.per_example import Loss, check_parameters
from mechanisms.gradients.trial import Trial, norms_of
from mechanisms.noise.clipping import NotFinite

_SLACK = 2.0**-40  # above the rounding of a norm's last steps and of a weight


@dataclass(frozen=True)
class RowSum:
    """A sum of clipped gradients, `vector` (d,) float64, in the order of the parameters.

    `mean_loss` (over the rows where it is finite, 0 for none) and `not_finite`, the number of rows whose
    gradient was not finite and that count as zero, are not private: they stay with the rows' owner.
    """

    vector: NDArray[np.float64]
    mean_loss: float
    not_finite: int


class ClippedSum:
    """Sums clipped gradients of single rows, by the fastest method that is right for the model.

    Book-keeping, where each parameter belongs to a layer with a rule; else, or where it disagrees with
    torch.func's `vmap` on stand-in rows, `vmap`; and where the numbers of a row depend on the others in its
    block, one row at a time. What decides are shapes and random stand-ins, never data: `method` says which it
    is.
    """

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, nn.Parameter],
        loss: Loss,
        row: tuple[torch.Tensor, torch.Tensor],
        radius: float,
        most_rows: int,
        expected_rows: float,
    ) -> None:
        """`parameters` by their names in the model; `loss`: the mean loss of (outputs, targets).

        `row`: x (1, ...) and y (1, ...) of any row, for shapes and types. `radius`: C. `most_rows`: no batch
        is longer; `expected_rows`: its mean. Both are public. The model must be on its device and in its
        mode. Raises ValueError for a layer that mixes rows, TypeError for parameters that are not float32.
        """
        check_parameters(model, parameters)
        self._parameters = dict(parameters)
        self._most_rows = count("most_rows", most_rows)
        expected = min(positive("expected_rows", expected_rows), most_rows)
        trial = Trial(model, parameters, loss, row, expected)
        self._way, self.method = trial.chosen()
        self._clip = self._clip_for(positive("radius", radius), trial.found)

    @property
    def block_rows(self) -> int:
        """K."""
        return self._way.rows

    def _clip_for(self, radius: float, found: Iterable[RowGradients]) -> float:
        """C': see the module."""
        gradients = list(found)
        nu = _SLACK + max(part.norm_error() for part in gradients)
        blocks = self._way.most_blocks(self._most_rows)
        terms = self.block_rows * max(part.terms for part in gradients) + blocks + 8
        ratio = max(part.ratio for part in gradients)
        return radius / (1 + nu + 2 * gamma(terms) * self._most_rows * ratio)

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> RowSum:
        """Returns the sum for x (n, ...) and y (n, ...), n from 0 to `most_rows`.

        Raises NotFinite if a parameter is not finite, which no single row is to blame for.
        """
        if len(x) > self._most_rows:
            raise ValueError(f"x has {len(x)} rows; allowed: at most most_rows = {self._most_rows}")
        if not all(_is_finite(parameter) for parameter in self._parameters.values()):
            raise NotFinite("a parameter of the model is NaN or infinite")
        sizes = [parameter.numel() for parameter in self._parameters.values()]
        device = in_float64(next(iter(self._parameters.values())).detach().flatten()[:0]).device
        vector = torch.zeros(sum(sizes), dtype=torch.float64, device=device)
        total = dict(zip(self._parameters, torch.split(vector, sizes), strict=True))
        losses, lost = 0.0, 0
        for block in self._way.blocks(x, y):
            loss, dropped = self._add(total, block)
            losses, lost = losses + loss, lost + dropped
        return RowSum(vector.cpu().numpy(), losses / max(1, len(x)), lost)

    def _add(self, total: Mapping[str, torch.Tensor], block: Block) -> tuple[float, int]:
        """Adds a block to `total`; returns the sum of its finite losses and the number of rows left out."""
        gradients, losses = self._way.gradients(block)
        norms = norms_of(gradients)
        taken, finite = block.taken.to(norms.device), torch.isfinite(norms)
        weights = torch.where(taken & finite, (self._clip / norms).clamp_(max=1.0), 0.0)
        if not finite.all():
            gradients = {name: part.without(~finite) for name, part in gradients.items()}
        for name, part in gradients.items():
            part.add_to(total[name], weights)
        own = losses[block.taken].double().nan_to_num(0.0, 0.0, 0.0)
        return float(own.sum()), int((taken & ~finite).sum())


def _is_finite(values: torch.Tensor) -> bool:
    """Whether all `values` are finite; a finite sum, which is fast, shows it."""
    return math.isfinite(float(values.detach().sum())) or bool(torch.isfinite(values).all())
