"""The learner of masks: it trains a U-Net on images and their masks, and measures Dice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from node.data.sides import RowDraws, held_back
from node.learners.learner import LearnerSetting, Vector
from node.learners.pieces import cut, joined
from node.masks.folder import Masked, Size, pairs, read_masked
from node.masks.network import GROUPS, STEPS_DOWN, UNet, mask_loss
from node.masks.written import MODEL, save_network
from node.system.errors import ConfigError, shown
from node.training.devices import find_device, within_memory

_SIDES = range(8, 1025, 1 << STEPS_DOWN)
_ARGS = ("size", "channels", "width")
_WIDTHS = range(GROUPS, 129, GROUPS)


class MaskLearner:
    """Trains a U-Net, as a node's learner."""

    def __init__(self, setting: LearnerSetting, model: UNet, own: Masked, held: Masked) -> None:
        """`own`: what is trained on; `held`: what is held back. Raises ConfigError for the device."""
        self._train, self._seed = setting.task.train, setting.seed
        self._device = find_device(self._train.device)
        self._model, self._own, self._held = model.to(self._device), own, held
        self._like = [part.detach().cpu().numpy().copy() for part in model.parameters()]
        self.name = f"U-Net of {sum(part.size for part in self._like)} numbers"

    @property
    def rows(self) -> int:
        """How many images it learns from."""
        return len(self._own.images)

    def vector(self) -> Vector:
        """Returns the parameters (d,)."""
        return joined(self._like)

    def train(self, vector: Vector, round: int) -> Vector:
        """Returns the parameters (d,) after the task's epochs."""
        model = self._with(vector).train()
        optimizer = torch.optim.Adam(model.parameters(), self._train.learning_rate)
        order = np.random.default_rng([self._seed, round])
        with within_memory(str(self._device), self._train.batch_size):
            for _ in range(self._train.epochs):
                for images, masks in self._batches(self._own, order.permutation(self.rows)):
                    optimizer.zero_grad()
                    mask_loss(model(images), masks).backward()
                    optimizer.step()
        return joined([part.detach().cpu().numpy() for part in model.parameters()])

    def evaluate(self, vector: Vector) -> Mapping[str, float]:
        """Returns Dice and the mean loss of the images held back; nothing if there are none."""
        counts, loss = self._measured(vector)
        return {**self.metrics(counts), "loss": loss / counts[0]} if counts[0] else {}

    def counts(self, vector: Vector) -> NDArray[np.int64]:
        """Returns (3,) of the images held back: their number, pixels found rightly, pixels found or there."""
        return self._measured(vector)[0]

    def metrics(self, counts: NDArray[np.generic]) -> Mapping[str, float]:
        """Returns Dice of what `counts` gives, or of a sum of it."""
        _, hit, both = (float(number) for number in counts)
        return {"dice": 2 * hit / both if both else 1.0}

    def _measured(self, vector: Vector) -> tuple[NDArray[np.int64], float]:
        """Returns `counts`, and the sum of losses."""
        model, hit, both, loss, count = self._with(vector).eval(), 0, 0, 0.0, len(self._held.images)
        with torch.no_grad(), within_memory(str(self._device), self._train.batch_size):
            for images, masks in self._batches(self._held, np.arange(count)):
                logits = model(images)
                found, there = logits > 0, masks > 0
                hit += int((found & there).sum())
                both += int(found.sum() + there.sum())
                loss += len(images) * float(mask_loss(logits, masks))
        return np.array([count, hit, both]), loss

    def save(self, vector: Vector, folder: Path) -> None:
        """Writes the model as `unet.safetensors`."""
        height, width = self._own.images.shape[2:]
        save_network(self._with(vector), (height, width), folder / MODEL)

    def _with(self, vector: Vector) -> UNet:
        with torch.no_grad():
            for part, array in zip(self._model.parameters(), cut(vector, self._like), strict=True):
                part.copy_(torch.from_numpy(array))
        return self._model

    def _batches(self, rows: Masked, order: NDArray[np.int64]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for batch in torch.split(torch.from_numpy(order), self._train.batch_size) if len(order) else ():
            yield rows.images[batch].to(self._device), rows.masks[batch].to(self._device)


def unet(setting: LearnerSetting) -> MaskLearner:
    """Returns the learner of a task, whose args are size, channels (1 or 3) and width. Raises ConfigError."""
    for name in sorted(setting.args.keys() - set(_ARGS)):
        raise ConfigError(f"model.args.{name} is refused; allowed: {', '.join(_ARGS)}")
    size, channels, width = checked(**setting.args)
    if setting.data is None:
        raise ConfigError("masks are learned from --data FOLDER, with FOLDER/images and FOLDER/masks")
    files = pairs(setting.data)
    rows = read_masked(files, channels, size)
    draws = RowDraws(setting.task.task.seed).of_files([image for image, _ in files])
    held = held_back(draws, setting.task.data.test_fraction)
    if held.all():
        raise ConfigError(f"data folder {shown(str(setting.data))}: no image is left to train on; add some")
    return MaskLearner(setting, UNet(channels, width), rows.at(~held), rows.at(held))


def checked(size: object = (64, 64), channels: object = 3, width: object = 8) -> tuple[Size, int, int]:
    """Returns height and width of images, their channels, and the model's width. Raises ConfigError."""
    sides = list(size) if isinstance(size, Sequence) else []
    if len(sides) != 2 or any(side not in _SIDES for side in sides):
        raise ConfigError(
            f"model.args.size = {shown(size)} is refused; allowed: [height, width], multiples of "
            f"{_SIDES.step} from {_SIDES.start} to {_SIDES[-1]}"
        )
    if channels not in (1, 3):
        raise ConfigError(f"model.args.channels = {shown(channels)} is refused; allowed: 1 (grey) or 3")
    if width not in _WIDTHS:
        raise ConfigError(
            f"model.args.width = {shown(width)} is refused; allowed: multiples of {GROUPS} up "
            f"to {_WIDTHS[-1]}"
        )
    return (int(sides[0]), int(sides[1])), int(channels), int(width)  # type: ignore[call-overload]
