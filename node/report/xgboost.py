"""The trees of a run as a file that XGBoost loads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from node.models.trees import Trees
from node.predict.model import open_model
from node.system.errors import ConfigError, counted, shown
from node.task.data_schema import TableSchema
from node.training.xgboost_file import xgboost_model


def xgboost_file(runs: Sequence[Path]) -> bytes:
    """Returns the JSON of a run's trees. Raises ConfigError for several runs and for another model."""
    if len(runs) != 1:
        raise ConfigError(f"--xgboost is of one model, not of {counted(len(runs), 'run')}; give one folder")
    saved = open_model(runs[0])
    schema = saved.task.data.schema
    if not isinstance(saved.model, Trees) or not isinstance(schema, TableSchema):
        raise ConfigError(
            f"--xgboost is refused: model.class = {shown(saved.task.model.cls)} is not of trees alone; "
            "allowed: 'node.models:Trees'"
        )
    try:
        return json.dumps(xgboost_model(saved.model, schema)).encode()
    except ValueError as error:
        raise ConfigError(f"--xgboost is refused: {error}") from None
