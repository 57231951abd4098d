"""The jobs that all systems do, as folders of arrays that the programs of each system read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.beside.programs import work
from node.data.partition import even

SITES = 5
ROUNDS = {"digits": 15, "lora": 10, work.SURVIVAL: 1}
_PERSONS, _EPOCHS = 2000, 30
Arrays = Mapping[str, NDArray[Any]]


def make_case(folder: Path, case: str, seed: int) -> None:
    """Write the files of a job: what each site has, the first model, and test rows."""
    rng = np.random.default_rng(seed)
    told = {"case": case, "seed": seed, "rounds": ROUNDS[case], "sites": SITES}
    (folder / "case.json").write_text(json.dumps(told), "utf-8")
    rows = _persons(rng) if case == work.SURVIVAL else _images(folder, case, seed, rng)
    for site, part in enumerate(even(len(next(iter(rows.values()))), SITES, rng)):
        own: dict[str, Any] = {name: values[part] for name, values in rows.items()}
        np.savez(folder / f"site{site}.npz", **own)


def _persons(rng: np.random.Generator) -> Arrays:
    """Return days until death or until a person leaves, whichever comes first, in a study of 365 days."""
    death, leaving = rng.exponential(300, _PERSONS), rng.uniform(30, work.DAYS - 1, _PERSONS)
    return {"days": np.minimum(death, leaving).astype(np.int64), "died": (death < leaving).astype(np.int64)}


def _images(folder: Path, case: str, seed: int, rng: np.random.Generator) -> Arrays:
    """Write test rows and the first model; return the sites' rows.

    Adapters belong to a model that was trained before: here on a third of the images as they are, while sites
    and test have theirs mirrored at the diagonal.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to load

    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
    order = rng.permutation(len(y))
    test, rest = np.split(order, [len(y) // 5])
    torch.manual_seed(seed)
    if case == "lora":
        public, rest = np.split(rest, [len(y) // 3])
        first = work.Transformer()
        _train(first, x[public], y[public])
        x = np.ascontiguousarray(x.reshape(-1, 8, 8).transpose(0, 2, 1)).reshape(-1, 64)
        model: torch.nn.Module = _adapted(first)
    else:
        model = work.MODELS[case]()
    np.savez(folder / "initial.npz", **{name: part.numpy() for name, part in model.state_dict().items()})
    np.savez(folder / "test.npz", x=x[test], y=y[test])
    return {"x": x[rest], "y": y[rest]}


def _train(model: torch.nn.Module, x: NDArray[np.float32], y: NDArray[np.int64]) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    for _ in range(_EPOCHS):
        for batch in torch.split(torch.randperm(len(y)), 32):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(torch.from_numpy(x)[batch]), torch.from_numpy(y)[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def _adapted(first: work.Transformer) -> work.Adapted:
    """Return the model with adapters at the layers of a trained one, whose weights they keep."""
    model, trained = work.Adapted(), first.state_dict()
    own = model.state_dict()
    for name in own:
        own[name] = trained.get(name.replace(".layer.", "."), own[name])
    model.load_state_dict(own)
    return model
