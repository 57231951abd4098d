"""What every system of the comparison computes at a site, with numpy and torch alone.

A folder has `case.json` ({"case", "seed", "rounds", "sites"}), `site0.npz`, `site1.npz` ..., and, where a
model is learned, `initial.npz` and `test.npz`. A site's part in a sum is a dict of named arrays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Tensors = dict[str, np.ndarray[Any, Any]]
DAYS, SURVIVAL = 365, "survival"
BATCH = 16
_WIDTH, _RANK = 32, 4


class Network(nn.Module):
    """One hidden layer: pixels (n, 64) to logits (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits (n, 10) of pixels (n, 64)."""
        logits: torch.Tensor = self.layers(x)
        return logits


class Adapter(nn.Module):
    """A frozen linear layer, and a product of rank 4 that is added to it: LoRA with a frozen first factor.

    With one trained factor the mean of the sites' adapters is the adapter of their mean
    (Sun et al., "Improving LoRA in Privacy-preserving Federated Learning", 2024).
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        first = torch.randn(_RANK, layer.in_features) / layer.in_features**0.5
        self.first = nn.Parameter(first, requires_grad=False)
        self.second = nn.Parameter(torch.zeros(layer.out_features, _RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output plus the adapter's: (..., in) to (..., out)."""
        frozen: torch.Tensor = self.layer(x)
        return frozen + x @ self.first.T @ self.second.T


class Transformer(nn.Module):
    """Two layers of attention over the eight rows of an image: pixels (n, 64) to logits (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, _WIDTH)
        self.place = nn.Parameter(torch.randn(8, _WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(_WIDTH, 4, 2 * _WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head: nn.Module = nn.Linear(8 * _WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits (n, 10) of pixels (n, 64)."""
        seen = self.encoder(self.first(x.reshape(-1, 8, 8)) + self.place)
        logits: torch.Tensor = self.head(seen.flatten(1))
        return logits


class Adapted(Transformer):
    """The same, frozen, with adapters at its feed-forward layers and its head."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)
        for layer in self.encoder.layers:
            for name in ("linear1", "linear2"):
                setattr(layer, name, Adapter(getattr(layer, name)))
        self.head = Adapter(nn.Linear(8 * _WIDTH, 10))

    def train(self, mode: bool = True) -> Adapted:
        """Stay in training mode: torch's fused path for evaluation would pass by the adapters."""
        super().train(True)
        return self


MODELS: Mapping[str, type[nn.Module]] = {"digits": Network, "lora": Adapted}
RATES = {"digits": 0.2, "lora": 1.0}


def read_case(folder: Path) -> dict[str, Any]:
    """Return what `case.json` says."""
    case: dict[str, Any] = json.loads((folder / "case.json").read_text("utf-8"))
    return case


def read_arrays(file: Path) -> Tensors:
    """Return the arrays of an npz file."""
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def load_model(folder: Path) -> nn.Module:
    """Return the case's model with its initial weights."""
    model = MODELS[read_case(folder)["case"]]()
    initial = {name: torch.from_numpy(array) for name, array in read_arrays(folder / "initial.npz").items()}
    model.load_state_dict(initial)
    return model


def trained(model: nn.Module) -> Tensors:
    """Return copies of the parameters that are trained: what sites exchange."""
    return {
        name: part.detach().numpy().copy() for name, part in model.named_parameters() if part.requires_grad
    }


def initial(folder: Path) -> Tensors:
    """Return what a run begins with: trained parameters, or empty counts."""
    if read_case(folder)["case"] == SURVIVAL:
        return {"counts": np.zeros((2, DAYS), np.float32)}
    return trained(load_model(folder))


class Site:
    """One site: it has its rows alone."""

    def __init__(self, folder: Path, number: int) -> None:
        torch.set_num_threads(1)
        self._case, self._number = read_case(folder), number
        self._rows = read_arrays(folder / f"site{number}.npz")
        self._model = None if self._case["case"] == SURVIVAL else load_model(folder)

    def part(self, given: Tensors, round_number: int) -> Tensors:
        """Return the site's part of a round that began with `given`: a trained model, or its counts."""
        if self._model is None:
            return {"counts": counts(self._rows["days"], self._rows["died"])}
        take(self._model, given)
        optimizer = torch.optim.SGD(
            [part for part in self._model.parameters() if part.requires_grad], RATES[self._case["case"]]
        )
        x, y = torch.from_numpy(self._rows["x"]), torch.from_numpy(self._rows["y"])
        order = np.random.default_rng([self._case["seed"], self._number, round_number]).permutation(len(y))
        for batch in _batches(torch.from_numpy(order)):
            optimizer.zero_grad()
            functional.cross_entropy(self._model(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return trained(self._model)


def take(model: nn.Module, given: Tensors) -> None:
    """Set the trained parameters to `given`."""
    with torch.no_grad():
        for name, part in model.named_parameters():
            if part.requires_grad:
                part.copy_(torch.from_numpy(np.asarray(given[name], np.float32)))


def _batches(order: torch.Tensor) -> Iterator[torch.Tensor]:
    yield from torch.split(order, BATCH)


def counts(days: np.ndarray[Any, Any], died: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return (2, 365) numbers: deaths on each day, and persons that leave on it without."""
    return np.stack([np.bincount(days[died == value], minlength=DAYS) for value in (1, 0)]).astype(np.float32)


def curve(totals: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return Kaplan and Meier's survival after each day, (365,), from the totals of `counts`."""
    deaths, leaving = np.asarray(totals, np.float64).round()
    at_risk = (deaths + leaving)[::-1].cumsum()[::-1]
    return np.cumprod(1 - deaths / np.maximum(at_risk, 1))


def pooled_curve(folder: Path) -> np.ndarray[Any, Any]:
    """Return the curve of all sites' rows."""
    sites = [read_arrays(folder / f"site{number}.npz") for number in range(read_case(folder)["sites"])]
    return curve(np.sum([counts(rows["days"], rows["died"]) for rows in sites], axis=0))


def score(folder: Path, found: Tensors) -> float:
    """Return the share of test rows that are right, or the curve's largest distance from the pooled one.

    `found`: the mean of all parts.
    """
    case = read_case(folder)
    if case["case"] == SURVIVAL:
        return float(abs(curve(case["sites"] * found["counts"]) - pooled_curve(folder)).max())
    model, test = load_model(folder), read_arrays(folder / "test.npz")
    take(model, found)
    with torch.no_grad():
        guessed = model(torch.from_numpy(test["x"])).argmax(1).numpy()
    return float((guessed == test["y"]).mean())
