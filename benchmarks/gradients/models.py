"""The models whose gradients are timed, and the timer. Nothing else of this project is loaded here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

CLASSES, WORDS, LENGTH, WIDTH = 10, 1000, 32, 64


class Attention(nn.Module):
    """Embedding, attention by one linear layer, layer norm and a head, over 32 words of 1,000."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return logits (n, 10) for the numbers of words (n, 32)."""
        hidden = self.words(words)
        attention = torch.softmax(self.query(hidden) @ hidden.transpose(1, 2) / WIDTH**0.5, -1)
        logits: torch.Tensor = self.out(self.norm(hidden + attention @ hidden).mean(1))
        return logits


def perceptron() -> nn.Module:
    """Return a perceptron, 784-64-10."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def convolutions() -> nn.Module:
    """Return the network of 26,010 parameters of Papernot et al. (2021) for MNIST."""
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
    """Return two convolutions with group norm, and a head."""
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
class ModelCase:
    """A model that is timed. `is_text`: a row is the numbers of its words, not a grey image of 28 x 28."""

    make: Callable[[], nn.Module]
    is_text: bool = False

    def build(self, batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
        """Return the model, x (batch, ...) and y (batch,), the same at every call."""
        torch.manual_seed(0)
        model = self.make()
        x = torch.randint(0, WORDS, (batch, LENGTH)) if self.is_text else torch.randn(batch, 1, 28, 28)
        return model, x, torch.randint(0, CLASSES, (batch,))


MODELS: Mapping[str, ModelCase] = {
    "mlp": ModelCase(perceptron),
    "cnn": ModelCase(convolutions),
    "cnn-groupnorm": ModelCase(group_norms),
    "attention": ModelCase(Attention, is_text=True),
}


def cpu_ms(step: Callable[[], object]) -> float:
    """Return the CPU milliseconds of this thread in a call of `step`, after a call that is not timed."""
    step()
    begun = time.thread_time()
    step()
    return 1e3 * (time.thread_time() - begun)
