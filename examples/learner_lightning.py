"""Lightning: five peers each train a LightningModule on digits of their own, by Lightning's Trainer.

python examples/learner_lightning.py
"""

import lightning
import torch
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

from node import Swarm
from node.learners.lightning import LightningLearner

TASK = {"task": {"name": "digits-lightning"}, "train": {"rounds": 3}}


class Digits(lightning.LightningModule):
    """A linear model of 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)
        torch.nn.init.zeros_(self.layer.weight)  # equal at all peers, as torch.manual_seed would make it
        torch.nn.init.zeros_(self.layer.bias)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:  # noqa: D102
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:  # noqa: D102
        self.log("val_acc", (self.layer(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:  # noqa: D102
        return torch.optim.SGD(self.parameters(), lr=0.2)


x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
rows = [TensorDataset(x[own].float() / 16, y[own]) for own in torch.arange(len(x)).chunk(5)]
data = [lightning.LightningDataModule.from_datasets(own, val_dataset=own, batch_size=16) for own in rows]
print(Swarm.local(5, TASK, learners=[LightningLearner(Digits(), one, epochs=2) for one in data]).run())
