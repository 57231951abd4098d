"""The models whose gradients are timed, and how; loads nothing of this project but itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

CLASSES, WORDS, LENGTH, WIDTH = 10, 1000, 32, 64


class Attention(nn.Module):
    """Embedding, attention of linear layers, layer norm and a head, over 32 word numbers of 1,000."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Returns (n, 10) logits for (n, 32) word numbers."""
        hidden = self.words(words)
        attention = torch.softmax(self.query(hidden) @ hidden.transpose(1, 2) / WIDTH**0.5, -1)
        logits: torch.Tensor = self.out(self.norm(hidden + attention @ hidden).mean(1))
        return logits


def perceptron() -> nn.Module:
    """784-64-10."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def convolutions() -> nn.Module:
    """The network of 26,000 parameters of Papernot et al. (2021) for MNIST."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, CLASSES),
    )


def group_norms() -> nn.Module:
    """Two convolutions with group norm."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, 2),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(800, CLASSES),
    )


@dataclass(frozen=True)
class Timed:
    """A model by its maker; `is_text`: its rows are word numbers rather than grey images of 28 x 28."""

    make: Callable[[], nn.Module]
    is_text: bool = False

    def built(self, batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
        """Returns the model, x (batch, ...) and y (batch,); always the same."""
        torch.manual_seed(0)
        model = self.make()
        x = torch.randint(0, WORDS, (batch, LENGTH)) if self.is_text else torch.randn(batch, 1, 28, 28)
        return model, x, torch.randint(0, CLASSES, (batch,))


MODELS: Mapping[str, Timed] = {
    "mlp": Timed(perceptron),
    "cnn": Timed(convolutions),
    "cnn-groupnorm": Timed(group_norms),
    "attention": Timed(Attention, is_text=True),
}


def cpu_ms(step: Callable[[], object]) -> float:
    """The CPU time of this thread in a call of `step`, after one that is not timed."""
    step()
    begun = time.thread_time()
    step()
    return 1e3 * (time.thread_time() - begun)
