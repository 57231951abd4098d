"""Linear algebra of which every machine computes the same bits.

IEEE 754 fixes the result of one +, -, x, / or square root of float64. It fixes nothing about a sum of many:
BLAS and numpy's own sums add in an order that depends on the processor and on threads. Here each step works
on all elements of an array at once, one operation an element, in an order that the shapes alone decide.
exp and log of numpy differ between processors, too: `log` is a series of such operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_LN2 = 0.6931471805599453
_TERMS = 12


def total(values: Doubles) -> Doubles:
    """Returns the sum (...,) of (n, ...) over its first axis: halves are added to each other."""
    if not len(values):
        return np.zeros(values.shape[1:])
    while len(values) > 1:
        half = len(values) // 2
        values = np.concatenate([values[:half] + values[half : 2 * half], values[2 * half :]])
    return values[0]


def log(values: Doubles) -> Doubles:
    """Returns the natural logarithms of positive numbers, off by less than 1e-15 of them or of 1.

    x = m 2^e with m from sqrt(1/2) to sqrt(2), and log m = 2 artanh s, s = (m - 1) / (m + 1).
    """
    mantissa, exponent = np.frexp(values)
    is_low = mantissa < 0.7071067811865476
    mantissa = np.where(is_low, 2 * mantissa, mantissa)
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    series = np.full_like(s, 1 / (2 * _TERMS + 1))
    for term in range(_TERMS - 1, -1, -1):
        series = series * square + 1 / (2 * term + 1)
    return 2 * s * series + (exponent - is_low) * _LN2


def symmetric(upper: Doubles, size: int) -> Doubles:
    """Returns the symmetric matrix (size, size) with this upper triangle, row by row."""
    matrix = np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    matrix[rows, columns] = upper
    matrix[columns, rows] = upper
    return matrix


@dataclass(frozen=True)
class Factors:
    """A = L D L': `lower` (n, n) with ones on its diagonal, `pivots` (n,). Golub & Van Loan 2013, 4.1.2."""

    lower: Doubles
    pivots: Doubles

    def solve(self, right: Doubles) -> Doubles:
        """Returns x (n,) with A x = right."""
        x = right.copy()
        for k in range(len(x)):
            x[k + 1 :] = x[k + 1 :] - self.lower[k + 1 :, k] * x[k]
        x = x / self.pivots
        for k in range(len(x) - 1, 0, -1):
            x[:k] = x[:k] - self.lower[k, :k] * x[k]
        return x

    def inverse_blocks(self, blocks: list[slice]) -> list[Doubles]:
        """Returns the diagonal blocks (m, m) of A's inverse: of K' D^-1 K, K the inverse of L."""
        size = len(self.pivots)
        inverse = np.eye(size)
        for k in range(size):
            below = self.lower[k + 1 :, k, None] * inverse[None, k, : k + 1]
            inverse[k + 1 :, : k + 1] = inverse[k + 1 :, : k + 1] - below
        scaled = inverse / self.pivots[:, None]
        return [total(inverse[:, block, None] * scaled[:, None, block]) for block in blocks]


def factorise(matrix: Doubles, least: float) -> Factors | None:
    """Returns the factors of a symmetric positive matrix (n, n).

    None if a pivot is at most `least` of its own diagonal element: that column is nearly a combination of
    those before it, or nothing.
    """
    rest = matrix.copy()
    size = len(rest)
    lower, pivots = np.eye(size), np.empty(size)
    for k in range(size):
        pivots[k] = rest[k, k]
        if not pivots[k] > least * matrix[k, k] or not pivots[k] > 0:
            return None
        column = rest[k + 1 :, k] / pivots[k]
        lower[k + 1 :, k] = column
        rest[k + 1 :, k + 1 :] = rest[k + 1 :, k + 1 :] - column[:, None] * rest[None, k, k + 1 :]
    return Factors(lower, pivots)
