"""What stands in a trainer's place where the bases of a job are no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from node.jobs.job import Job
from node.storage.vector_files import Floats
from node.task.sections import Task
from node.training.figures.headline import Headline
from node.training.local_tensors import Array
from node.training.trainer import Evaluation


@dataclass(frozen=True)
class NoModel:
    """A learner without a model: nothing is evaluated or written."""

    job: Job
    own_names: tuple[str, ...] = ()

    def vector(self) -> Floats:
        """Returns the job's first base."""
        return self.job.initial()

    def evaluate(self, vector: Floats) -> Evaluation:
        """Returns accuracy 1 if there was a sum, else 0; the loss is 0."""
        done = float(vector.tobytes() != self.job.initial().tobytes())
        return Evaluation(done, 0.0, {}, Headline("accuracy", done, None))

    def own_loss(self, vector: Floats) -> float:
        """Returns 0: sums have no loss."""
        return 0.0

    def tensors(self, vector: Floats) -> dict[str, Array]:
        """Returns no tensors."""
        return {}

    def module(self, vector: Floats) -> nn.Module:
        """Returns an identity."""
        return nn.Identity()

    def curves(self, vector: Floats, task: Task) -> None:
        """Returns nothing: there is no model."""

    def made(self, vector: Floats) -> str:
        """Returns nothing: there is no model."""
        return ""

    def resume(self, stored: Mapping[str, Array]) -> None:
        """Does nothing: there are no own tensors."""

    def keep_features(self, folder: Path) -> None:
        """Does nothing: there are no features."""
