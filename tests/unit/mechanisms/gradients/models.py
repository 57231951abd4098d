"""Small models, one for each kind of layer, and gradients of their rows computed one by one."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients.objective import Objective
from node.models import attention_mask, with_adapters

CLASSES = 3


class Words(nn.Module):
    """An embedding and nothing that normalises."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 5)
        self.out = nn.Linear(5, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.words(words).sum(1))


class Text(nn.Module):
    """Embedding, attention made of linear layers, and layer norm, over sequences of word numbers."""

    def __init__(self, length: int = 6, width: int = 8) -> None:
        super().__init__()
        self.words = nn.Embedding(20, width, padding_idx=0)
        self.query = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.words(words)
        attention = torch.softmax(self.query(hidden) @ hidden.transpose(1, 2), -1)
        return self.out(self.norm(hidden + attention @ hidden).mean(1))


def made_of(*layers: nn.Module) -> Callable[[], nn.Module]:
    """Makes copies of these layers, with parameters drawn anew."""

    def fresh() -> nn.Module:
        model = copy.deepcopy(nn.Sequential(*layers))
        for module in model:
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        return model

    return fresh


class Adapted(nn.Module):
    """A transformer over words, of which 0 fills up a row: tied weights, dropout, and low-rank adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.back = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
        self.back.weight = self.words.weight
        layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.5, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1)
        with_adapters(self, "*[!k]", rank=2)
        for layer in self.modules():
            if hasattr(layer, "lora_B"):
                nn.init.normal_(layer.lora_B.weight)  # so that they add something
        self.out = nn.Linear(20, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        mask = attention_mask(words != 0)[:, 0, 0]
        return self.out(self.back(self.body(self.words(words), src_key_padding_mask=mask)).mean(1))


IN_PLACE = (nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, CLASSES, bias=False))
CONV_1D = (nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.Flatten(), nn.Linear(24, CLASSES))
CONV_2D = (
    nn.Conv2d(2, 8, 3, stride=2, padding=1),
    nn.Tanh(),
    nn.Conv2d(8, 8, 3, groups=2, dilation=2, bias=False),
)
GROUP_NORM = (nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))
LAYER_NORM = (nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, CLASSES))
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...] | None]] = {
    "linear": (made_of(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, CLASSES)), (5,)),
    "in place": (made_of(*IN_PLACE), (5,)),
    "sequence": (made_of(nn.Linear(9, 16), nn.Tanh(), nn.Flatten(), nn.Linear(64, CLASSES)), (4, 9)),
    "long sequence": (made_of(nn.Linear(2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(60, CLASSES)), (20, 2)),
    "conv1d": (made_of(*CONV_1D), (2, 11)),
    "conv2d": (made_of(*CONV_2D, nn.Flatten(), nn.Linear(32, CLASSES)), (2, 11, 11)),
    "group norm": (made_of(*GROUP_NORM), (1, 6, 6)),
    "layer norm": (made_of(*LAYER_NORM), (5,)),
    "text": (Text, None),
    "words": (Words, None),
    "adapters": (Adapted, None),
}


def built(kind: str, rows: int, seed: int = 0) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A model, x (rows, ...) and y (rows,)."""
    torch.manual_seed(seed)
    make, shape = MODELS[kind]
    model = make()
    x = torch.randint(0, 20, (rows, 6)) if shape is None else torch.randn(rows, *shape)
    return model, x, torch.randint(0, CLASSES, (rows,))


def named(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, targets)


def objective(model, x, y, parameters=None, loss=cross_entropy) -> Objective:
    """All parameters of a model, or some, for rows like these."""
    return Objective(model, named(model) if parameters is None else parameters, loss, (x[:1], y[:1]))


def one_by_one(model, parameters, loss, x, y) -> np.ndarray:
    """(n, d) float64: a backward pass for each row."""
    rows, of = [], list(parameters.values())
    for row in range(len(x)):
        own = loss(model(x[row : row + 1]), y[row : row + 1])
        gradients = torch.autograd.grad(own, of, materialize_grads=True, allow_unused=True)
        rows.append(torch.cat([part.ravel() for part in gradients]).numpy().astype(np.float64))
    return np.array(rows)


def clipped(gradients: np.ndarray, radius: float) -> np.ndarray:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1, radius / norms)


def clipped_one_by_one(model, x, y, radius, loss=cross_entropy) -> np.ndarray:
    """(d,) float64: what the sum of clipped gradients must be."""
    return clipped(one_by_one(model, named(model), loss, x, y), radius).sum(0)
