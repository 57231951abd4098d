"""NumPy arrays and torch tensors alike: float64 on the way in, the input's form on the way out."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

Form = TypeVar("Form", NDArray[Any], torch.Tensor)

_NUMERIC = "biuf"  # booleans, integers, floats; neither complex numbers nor objects


def as_float64(name: str, array: object) -> NDArray[np.float64]:
    """The values of a numpy array or a torch tensor of any shape; TypeError for anything else."""
    if isinstance(array, torch.Tensor) and not array.is_complex():
        return array.detach().to("cpu", torch.float64).numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind in _NUMERIC:
        return array.astype(np.float64)
    kind = array.dtype if isinstance(array, (np.ndarray, torch.Tensor)) else type(array).__name__
    raise TypeError(f"{name} of {kind} are not allowed: a numpy array or a torch tensor of real numbers")


def like(values: NDArray[np.float64], form: Form) -> Form:
    """`values` as an array or tensor with the type (and, for a tensor, on the device) of `form`."""
    if isinstance(form, torch.Tensor):
        return torch.from_numpy(values).to(form.device, form.dtype)
    return values.astype(form.dtype)
