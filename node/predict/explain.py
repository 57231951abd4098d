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


def explained_words(saved: SavedModel) -> str:
    """Says what the cells of `contributions` add up to."""
    model, schema = saved.model, saved.task.data.schema
    if not isinstance(model, Additive) or schema is None:
        raise ValueError("the model has no parts by column")
    target, base = schema.target, float(model.base[0])
    each = f"each column {shown('by ...')} is what it adds to"
    trees = f"; {shown(TOGETHER)} is what trees add" if model.interactions is not None else ""
    if isinstance(target, NumberTarget):
        return f"{each} {target.name or 'the number'}, from {target.mean + base * target.std:.6g} on{trees}"
    if model.base.shape[0] > 1:
        return f"{each} the log odds of the predicted class{trees}"
    return f"{each} the log odds of {shown(target.values[1])}, from {base:.6g} on{trees}"
