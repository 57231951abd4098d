"""A run of MLflow in a local folder, which `mlflow ui --backend-store-uri DIR` shows; nothing is sent."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when mlflow is imported: it would report its use
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # later versions ask for it

from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

MAX_CHARACTERS = 500
"""What MLflow's parameters hold in every version."""
_NAME = "mlflow.runName"


class MLflow:
    """Writes one run into the experiment of its task; a node that resumes goes on in the same run."""

    def __init__(self, folder: Path, run: str, task: str) -> None:
        self._client = MlflowClient(folder.absolute().as_uri())
        experiment = self._client.get_experiment_by_name(task)
        number = self._client.create_experiment(task) if experiment is None else experiment.experiment_id
        earlier = self._client.search_runs([number], f"tags.`{_NAME}` = '{run}'", max_results=1)
        found = earlier[0] if earlier else self._client.create_run(number, run_name=run)
        self._run = str(found.info.run_id)

    def describe(self, lines: Mapping[str, str]) -> None:
        """Writes the lines as tags, which a node that resumes may change."""
        for name, text in lines.items():
            self._client.set_tag(self._run, name, text[:MAX_CHARACTERS])
        self._client.update_run(self._run, status="RUNNING")

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Writes a point for each figure, at the round's number; a dot in a name begins a group."""
        at = int(time.time() * 1000)
        points = [Metric(name.replace(".", "/"), value, at, number) for name, value in figures.items()]
        self._client.log_batch(self._run, metrics=points)

    def finish(self, figures: Mapping[str, float]) -> None:
        """Ends the run: MLflow shows it as finished."""
        self._client.set_terminated(self._run)

    def close(self) -> None:
        """Does nothing: each point is in its file already."""
