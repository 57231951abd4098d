"""Adapters of a transformer: its own weights stay as they are, and four peers learn what is added to them.

python examples/adapters.py
"""

import torch
from torch import nn

from node import Swarm, load_task
from node.models import with_adapters


class Adapted(nn.Module):
    """An encoder over the eight rows of an image, with adapters of rank 4, and a head: (n, 64) -> (n, 10).

    Yours begins with trained weights, such as transformers.AutoModel.from_pretrained(FOLDER).
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(8, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.encoder = with_adapters(nn.TransformerEncoder(layer, num_layers=2), "*.linear*", rank=4)
        self.head = nn.Linear(8 * width, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits for the ten digits."""
        seen = self.encoder(self.first(rows.reshape(-1, 8, 8)))  # (n, 8, width)
        logits: torch.Tensor = self.head(seen.flatten(1))
        return logits


if __name__ == "__main__":
    changes = ["model.class=__main__:Adapted", "model.args={}", "train.learning_rate=0.02"]
    results = Swarm.local(4, load_task("digits", changes), rounds=2).run()

    print(results)
    named = results.model.named_parameters()
    print("numbers of adapters:", sum(part.numel() for name, part in named if "lora_B" in name))
