"""Runs in an environment with Opacus: answers each line [model, batch, kind] with milliseconds.

A step is the forward pass, the gradients of single rows, and their clipped sum. No kind adds noise.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module, metadata

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.gradients.models import MODELS, cpu_ms


def step_of(name: str, batch: int, kind: str) -> Callable[[], None]:
    """Return one step of a model. `kind`: "opacus-ghost", or "opacus" with hooks."""
    engine = import_module("opacus").PrivacyEngine()  # Opacus is not installed where this file is checked
    model, x, y = MODELS[name].build(batch)
    ghost = kind == "opacus-ghost"
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = engine.make_private(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(TensorDataset(x, y), batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode="ghost" if ghost else "hooks",
    )
    model, optimizer = made[:2]
    criterion = made[2] if ghost else nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        if not ghost:
            optimizer.clip_and_accumulate()

    return step


def main() -> None:
    """Print the version of Opacus, then answer until the input ends."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(json.dumps(metadata.version("opacus")), flush=True)
    steps: dict[tuple[str, int, str], Callable[[], None]] = {}
    for line in sys.stdin:
        name, batch, kind = json.loads(line)
        asked = (str(name), int(batch), str(kind))
        if asked not in steps:
            steps[asked] = step_of(*asked)
        print(json.dumps(cpu_ms(steps[asked])), flush=True)


if __name__ == "__main__":
    main()
