"""What each column of a table adds to the predictions of an additive model, and what columns add together."""

from __future__ import annotations

import torch

from node.models.additive import Additive
from node.predict.model import SavedModel
from node.system.errors import ConfigError, shown
from node.task.data_schema import NumberTarget, TableSchema
from node.training.figures.metrics import chosen_labels

TOGETHER = "by interactions"
"""The head of what no column adds by itself."""


def contributions(saved: SavedModel, x: torch.Tensor, outputs: torch.Tensor) -> list[list[str]]:
    """Returns cells for a head and each of the encoded rows x (n, features) with predictions `outputs`.

    They say what each column adds, and last what trees add by several columns: to a number in its unit; with
    one logit for two classes to that of the second, else to that of the predicted class. Raises ConfigError
    for another model.
    """
    model, schema = saved.model, saved.task.data.schema
    if not isinstance(model, Additive) or not isinstance(schema, TableSchema):
        raise ConfigError(
            f"--explain is refused: the parts of model.class = {shown(saved.task.model.cls)} are not of "
            "single columns; allowed: 'node.models:Additive', learned with a schema"
        )
    heads = [f"by {column.name}" for column in schema.columns]
    with torch.inference_mode():
        added = model.contributions(x)  # (n, columns, outputs)
        if model.interactions is not None:
            added, heads = torch.cat([added, model.added_together(x).unsqueeze(1)], 1), [*heads, TOGETHER]
        added = added.double()
    many = added.shape[2] > 1
    chosen = chosen_labels(outputs) if many else torch.zeros(len(x), dtype=torch.int64)
    unit = schema.target.std if isinstance(schema.target, NumberTarget) else 1.0
    parts = added[torch.arange(len(x)), :, chosen] * unit  # (n, columns)
    cells = [[f"{part:.6g}" for part in row] for row in parts.tolist()]
    return [heads, *cells]
