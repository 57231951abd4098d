"""Clipping, which bounds how far one owner, or one record, can move a sum.

The L2 norm of a clipped vector is at most the radius in exact arithmetic. Float32 products are rounded, so
every function here scales a vector to slightly less than the radius.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import count, positive

Floats = NDArray[np.float32]

_BLOCK = 1 << 15  # elements per block: the float64 copies stay in the cache
# More than the relative error of a float64 norm (about 2^-45 at 10^9 elements).
_NORM_MARGIN = 2.0**-40
# More than the rounding of a product to float32, 2^-24, and the margin of the norm together.
_SCALE_MARGIN = 2.0**-23
_LEAST_RADIUS = 2.0**-100  # below it the rounding of subnormal numbers would matter


class NotFinite(ValueError):
    """A vector holds a NaN or an infinity, which clipping cannot bound: no part of it may be released."""


def finite_or_zeros(vector: Floats) -> Floats:
    """Returns `vector` (d,), or zeros (d,) if it holds a NaN or an infinity."""
    return vector if np.isfinite(vector).all() else np.zeros_like(vector)


def norm(vector: Floats) -> float:
    """The L2 norm of `vector` (d,) float32, in float64. Raises as `clip_l2`."""
    buffer = np.empty(min(_BLOCK, len(_check_vector(vector))))
    squares = 0.0
    for part in blocks(len(vector)):
        exact = buffer[: part.stop - part.start]
        np.copyto(exact, vector[part])
        np.square(exact, out=exact)
        squares += float(exact.sum())  # not a dot product: its threads wait for each other on a busy machine
    if not math.isfinite(squares):
        raise NotFinite("vector holds a NaN or an infinity")
    return math.sqrt(squares)


def clip_l2(vector: Floats, radius: float) -> Floats:
    """Returns `vector` (d,) if its L2 norm is at most `radius`, else a copy that is scaled down to it.

    Replacing the vector by another one moves the result by at most 2 radius; adding or removing it moves a
    sum by at most radius (L2). Raises NotFinite on NaN or infinity, ValueError for another shape or an empty
    vector, TypeError unless it is float32.
    """
    bound = _check_radius("radius", radius)
    size = norm(vector)
    if size * (1 + _NORM_MARGIN) <= bound:
        return vector
    return _scale(vector, bound / size * (1 - _SCALE_MARGIN))


def clip_rows(rows: Floats, radius: float) -> Floats:
    """Returns a copy of `rows` (n, ...) float32, in which each has an L2 norm of at most `radius`.

    Replacing one row moves the result by at most 2 radius (L2). Raises NotFinite if a row holds NaN or
    infinity.
    """
    bound, exact = _check_radius("radius", radius), rows.reshape(len(rows), -1).astype(np.float64)
    sizes = np.sqrt(np.einsum("np,np->n", exact, exact))
    if not np.isfinite(sizes).all():
        raise NotFinite("rows hold a NaN or an infinity")
    far = sizes * (1 + _NORM_MARGIN) > bound
    exact[far] *= (bound / sizes[far] * (1 - _SCALE_MARGIN))[:, None]
    return exact.astype(np.float32).reshape(rows.shape)


def clip_layers(vector: Floats, sizes: Sequence[int], radii: Sequence[float]) -> Floats:
    """Scales each layer of `vector` (d,), of `sizes` elements one after another, to at most its radius (L2).

    The result has an L2 norm of at most `layers_radius(radii)`; it is `vector` itself if no layer is longer.
    Raises ValueError if sizes, radii and vector do not fit each other, and as `clip_l2`.
    """
    checked = _check_vector(vector)
    if len(sizes) != len(radii):
        raise ValueError(f"radii has {len(radii)} values for {len(sizes)} layers; allowed: one a layer")
    ends = np.cumsum([count("sizes", size) for size in sizes])
    if not len(ends) or ends[-1] != len(checked):
        raise ValueError(f"sizes add up to {int(ends[-1:].sum())} for a vector of {len(checked)}")
    layers = np.split(checked, ends[:-1])
    clipped = [clip_l2(layer, radius) for layer, radius in zip(layers, radii, strict=True)]
    if all(new is old for new, old in zip(clipped, layers, strict=True)):
        return vector
    return np.concatenate(clipped)


def layers_radius(radii: Sequence[float]) -> float:
    """sqrt(sum of r^2), rounded up: no vector that is clipped layer by layer is longer (L2)."""
    if not len(radii):
        raise ValueError("radii is empty; allowed: one radius a layer")
    return math.hypot(*(_check_radius("radii", radius) for radius in radii)) * (1 + 2**-50)


def clip_elements(vector: Floats, bound: float) -> Floats:
    """Returns a (d,) float32 copy of `vector` (d,) with elements within +-`bound`: L2 norm <= bound sqrt(d).

    Raises as `clip_l2`.
    """
    limit = _float32_at_most(positive("bound", bound))
    if not np.isfinite(_check_vector(vector)).all():
        raise NotFinite("vector holds a NaN or an infinity")
    return np.clip(vector, -limit, limit)


def blocks(size: int, block: int = _BLOCK) -> Iterator[slice]:
    """Yields consecutive slices of at most `block` elements that cover `size` elements."""
    return (slice(start, min(size, start + block)) for start in range(0, size, block))


def _scale(vector: Floats, factor: float) -> Floats:
    """Returns `vector` (d,) times `factor`, in float64 and then rounded to float32."""
    out = np.empty_like(vector)
    for part in blocks(len(vector)):
        np.multiply(vector[part], factor, out=out[part], dtype=np.float64, casting="same_kind")
    return out


def _check_radius(name: str, value: float) -> float:
    radius = positive(name, value)
    if radius < _LEAST_RADIUS:
        raise ValueError(f"{name} = {value} is not allowed: at least {_LEAST_RADIUS:g}")
    return radius


def _float32_at_most(bound: float) -> np.float32:
    """The largest float32 that does not exceed `bound`."""
    with np.errstate(over="ignore"):
        nearest = np.float32(bound)
    return nearest if float(nearest) <= bound else np.nextafter(nearest, np.float32(0))


def _check_vector(vector: Floats) -> Floats:
    if vector.dtype != np.float32:
        raise TypeError(f"vector holds {vector.dtype}; allowed: float32")
    if vector.ndim != 1 or not len(vector):
        raise ValueError(f"vector has shape {vector.shape}; allowed: (d,) with d at least 1")
    return vector
