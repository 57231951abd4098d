"""The first part of a model, if it is not trained: its outputs for the node's rows are computed once.

A scattering transform, or a network trained on public data, is the same in every round. `model.body` names
it: the node replaces its rows by what the body makes of them, keeps these features on disk, and trains the
rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from mechanisms.gradients.row_outputs import RowOutputs
from mechanisms.gradients.side_effects import NotByRow, in_eval_mode
from node.storage.whole_files import replace_file
from node.system.errors import ConfigError, shown
from node.training.parameter_scope import digest_of, plain_tensors

_ROWS, _PROBED = 256, 8  # rows in a batch; rows whose features are part of the digest
_SUFFIX = ".f32"
FEATURES = "features"
"""The folder of features in a run's folder."""


class FrozenBody:
    """The submodule `name` of `model`, which the model applies to its rows before anything else."""

    def __init__(self, model: nn.Module, name: str, rows: torch.Tensor) -> None:
        """`rows` (n, ...): any; two are tried, and random ones like them.

        Raises ConfigError for a submodule that is no such body.
        """
        parts = {part: module for part, module in model.named_modules() if part}
        if name not in parts:
            raise ConfigError(
                f"model.body = {shown(name)} is no part of the model; it has: {shown(', '.join(parts))}"
            )
        self._model, self._name, self._body = model, name, parts[name]
        self._files: set[str] = set()
        trained = [part for part, value in self._body.named_parameters() if value.requires_grad]
        if trained:
            raise ConfigError(
                f"model.body = {shown(name)} would be trained ({shown(trained[0])}); let train.parameters "
                "match only the rest of the model"
            )
        self._check(rows[:2])

    def _check(self, rows: torch.Tensor) -> None:
        """Compares the model's outputs with those of the rest of it on features; leaves the body skipped."""
        with in_eval_mode(self._model), torch.no_grad():
            expected = self._model(rows)
            try:
                self._outputs = RowOutputs(self._body, rows[:1])
                (features,) = self._outputs(rows)
                self._body.__dict__["forward"] = _unchanged
                found = self._model(features)
                fits = bool(torch.allclose(found, expected, rtol=1e-4, atol=1e-5))
            except NotByRow as error:
                raise ConfigError(f"model.body = {shown(self._name)}: {error}") from error
            except (RuntimeError, TypeError, ValueError, AttributeError):
                fits = False
        if not fits:
            self.restore(self._model)
            raise ConfigError(
                f"model.body = {shown(self._name)} does not fit: the model must apply it to its rows as they "
                "are, before anything else, and use its outputs alone"
            )

    def restore(self, model: nn.Module) -> nn.Module:
        """Returns `model`, this one or a copy, whose body computes again."""
        model.get_submodule(self._name).__dict__.pop("forward", None)
        return model

    def features(self, rows: torch.Tensor, folder: Path | None) -> torch.Tensor:
        """Returns the body's outputs for `rows` (n, ...), from a file in `folder` if they are there.

        The file's name is a digest of the rows, the body's tensors, and its outputs for a few rows. The
        result is on the device of the rows; on the CPU it may stay on disk until it is read. Raises OSError.
        """
        if folder is None:
            return torch.cat([*self._computed(rows)])
        (sample,) = self._computed(rows[:_PROBED])
        path = folder / f"{self._digest(rows, sample)}{_SUFFIX}"
        self._files.add(path.name)
        if not path.is_file() or path.stat().st_size != len(rows) * sample[0].numel() * sample.element_size():
            folder.mkdir(mode=0o700, exist_ok=True)
            replace_file(path, (part.cpu().numpy().tobytes() for part in self._computed(rows)), durable=False)
        # Copy on write: torch wants memory that may be written.
        stored = np.memmap(path, np.float32, mode="c", shape=(len(rows), *sample.shape[1:]))
        return torch.from_numpy(stored).to(rows.device)

    def tidy(self, folder: Path) -> None:
        """Removes features of other rows or bodies than those asked for. Raises OSError."""
        for path in folder.glob(f"*{_SUFFIX}"):
            if path.name not in self._files:
                path.unlink(missing_ok=True)

    def _computed(self, rows: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yields the outputs, some rows at a time."""
        self.restore(self._model)
        try:
            for features in self._outputs(rows):
                yield features.float()
        finally:
            self._body.__dict__["forward"] = _unchanged

    def _digest(self, rows: torch.Tensor, sample: torch.Tensor) -> str:
        names = [name for name in plain_tensors(self._model) if name.startswith(f"{self._name}.")]
        digest = hashlib.sha256(
            f"{torch.__version__} {type(self._body).__module__} {self._body} {tuple(rows.shape)} "
            f"{rows.dtype} {digest_of(self._model, names)} {self._outputs.layout}".encode()
        )
        for batch in (sample, *rows.split(_ROWS)):
            digest.update(batch.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:32]


def _unchanged(features: torch.Tensor) -> torch.Tensor:
    return features
