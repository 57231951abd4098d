"""Lightning: a LightningModule and its data, trained by Lightning's own Trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from node.learners.extras import extra
from node.learners.learner import Vector
from node.learners.pieces import cut, joined


class LightningLearner:
    """Learns all tensors of a module's state_dict by `Trainer.fit`; each round has a new Trainer."""

    def __init__(
        self, module: Any, data: Any, make_trainer: Callable[[], Any] | None = None, epochs: int = 1
    ) -> None:
        """`module`: a LightningModule, equal at all members; `data`: a LightningDataModule of the own rows.

        `make_trainer`: returns a Trainer for a round. None: one on the CPU for so many `epochs`, that writes
        and shows nothing. Raises ConfigError if lightning is not installed.
        """
        self.name = f"{type(module).__name__} by Lightning"
        self._module, self._data = module, data
        self._make = make_trainer or (lambda: _silent(epochs))
        self._like = self._arrays()

    def vector(self) -> Vector:
        """Returns the tensors (d,), in the order of the state_dict."""
        return joined(self._like)

    def train(self, vector: Vector, round: int) -> Vector:
        """Returns the tensors (d,) after `Trainer.fit`."""
        self._make().fit(self.module(vector), datamodule=self._data)
        return joined(self._arrays())

    def evaluate(self, vector: Vector) -> Mapping[str, float]:
        """Returns what `Trainer.validate` logs: `val_acc` and `val_loss` are accuracy and loss."""
        found = self._make().validate(self.module(vector), datamodule=self._data, verbose=False)
        logged = {name: float(value) for part in found for name, value in part.items()}
        values = {_NAMES.get(name, name): value for name, value in logged.items()}
        return dict(sorted(values.items(), key=lambda item: item[0] == "loss"))

    def save(self, vector: Vector, folder: Path) -> None:
        """Writes the state_dict as safetensors, for `module.load_state_dict(load_file(...))`."""
        from safetensors.torch import save_file  # noqa: PLC0415 - torch

        tensors = {
            name: part.detach().cpu().clone() for name, part in self.module(vector).state_dict().items()
        }
        save_file(tensors, folder / "module.safetensors")

    def module(self, vector: Vector) -> Any:
        """Returns the module, now with the tensors `vector` (d,)."""
        import torch  # noqa: PLC0415 - loaded by whoever has a module

        arrays = cut(vector, self._like)
        state = {
            name: torch.from_numpy(np.array(part))
            for name, part in zip(self._module.state_dict(), arrays, strict=True)
        }
        self._module.load_state_dict(state)
        return self._module

    def _arrays(self) -> list[Any]:
        return [part.detach().cpu().numpy().copy() for part in self._module.state_dict().values()]


_NAMES = {
    **dict.fromkeys(("val_acc", "val_accuracy", "acc"), "accuracy"),
    **dict.fromkeys(("val_loss", "validation_loss"), "loss"),
}
"""What Lightning's users call the two figures that have places of their own."""


def _silent(epochs: int) -> Any:
    return extra("lightning", "lightning").Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
