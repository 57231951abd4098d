"""A network of your own: any torch.nn.Module, named by where it is.

python examples/own_model.py
"""

import torch
from torch import nn

from node import Swarm, load_task


class Convolution(nn.Module):
    """Eight filters over an image of 8 x 8 pixels, then one linear layer: (n, 64) -> (n, 10)."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.filters = nn.Conv2d(1, filters, kernel_size=3)
        self.head = nn.Linear(filters * 3 * 3, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits for the ten digits."""
        seen = torch.relu(self.filters(rows.reshape(-1, 1, 8, 8)))
        logits: torch.Tensor = self.head(nn.functional.max_pool2d(seen, 2).flatten(1))
        return logits


if __name__ == "__main__":
    task = load_task("digits", ["model.class=__main__:Convolution", "model.args={filters = 8}"])
    results = Swarm.local(3, task, rounds=4).run()

    print(results)
    image = torch.zeros(1, 64)
    print("the model on a blank image:", results.model(image).argmax(1).item())
