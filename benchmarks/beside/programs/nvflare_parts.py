"""What sites exchange, as the model that NVIDIA FLARE stores: one parameter for each array."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from work import initial


class Parts(nn.Module):
    """The arrays of `work.initial`; a dash in a name stands for a dot, which torch does not allow in one."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        for name, array in initial(Path(folder)).items():
            self.register_parameter(name.replace(".", "-"), nn.Parameter(torch.from_numpy(array)))
