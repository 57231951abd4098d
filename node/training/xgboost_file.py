"""Boosted trees as a model of XGBoost, whose JSON 3.x any program with XGBoost reads.

A row has a column of the table in each feature: a number in its owner's unit, a category as its place in the
schema's list (the list's length for another value), yes as 1 and no as 0, and NaN for a missing value. A
split sends numbers below its condition to the left, and to the right the categories that it lists; a missing
value goes where the split says.
"""

from __future__ import annotations

import math
from typing import Any

from node.models.additive import CellColumn
from node.models.trees import Trees
from node.task.data_schema import ClassTarget, NumberColumn, NumberTarget, TableSchema

_VERSION = [3, 0, 0]
_ROOT = 2**31 - 1
_NOWHERE = 3e38
"""A condition that every number meets, or with the other sign none."""


def xgboost_model(model: Trees, schema: TableSchema) -> dict[str, Any]:
    """Returns the JSON value of `model`, which answers logits of the second class, or numbers in their unit.

    Raises ValueError for a model with curves, or of more than two classes.
    """
    if bool(model.curves.values.any()):
        raise ValueError("curves are no trees; allowed: a model that was learned with curve_sums = 0")
    if len(model.value) > 1:
        raise ValueError(
            f"{len(model.value)} classes against the rest have no one XGBoost model; allowed: two"
        )
    target = schema.target
    unit, start = (target.std, target.mean) if isinstance(target, NumberTarget) else (1.0, 0.0)
    base = start + unit * float(model.curves.base[0])
    kept = [number for number in range(model.value.shape[1]) if bool(model.value[0, number].any())]
    trees = [_tree(model, schema, number, place, unit) for place, number in enumerate(kept)]
    is_class = isinstance(target, ClassTarget)
    columns = schema.columns
    return {
        "learner": {
            "attributes": {},
            "feature_names": [column.name for column in columns],
            "feature_types": ["float" if isinstance(column, NumberColumn) else "c" for column in columns],
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                    "iteration_indptr": list(range(len(trees) + 1)),
                    "tree_info": [0] * len(trees),
                    "trees": trees,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": f"[{1 / (1 + math.exp(-base)) if is_class else base!r}]",
                "boost_from_average": "1",
                "num_class": "0",
                "num_feature": str(len(columns)),
                "num_target": "1",
            },
            "objective": {
                "name": "binary:logistic" if is_class else "reg:squarederror",
                "reg_loss_param": {"scale_pos_weight": "1"},
            },
        },
        "version": _VERSION,
    }


def _tree(model: Trees, schema: TableSchema, number: int, place: int, unit: float) -> dict[str, Any]:
    """Returns a tree, its nodes by level without those that no row reaches."""
    asked, values = model.column[0, number].tolist(), (model.value[0, number] * unit).tolist()
    order, parents = [0], [_ROOT]
    for at, node in enumerate(order):
        if asked[node] >= 0:
            order += [2 * node + 1, 2 * node + 2]
            parents += [at, at]
    index = {node: at for at, node in enumerate(order)}
    nodes = len(order)
    found: dict[str, Any] = {
        "base_weights": [values[node] for node in order],
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": [0] * nodes,
        "id": place,
        "left_children": [index.get(2 * node + 1, -1) for node in order],
        "loss_changes": [0.0] * nodes,
        "parents": parents,
        "right_children": [index.get(2 * node + 2, -1) for node in order],
        "split_conditions": [values[node] for node in order],
        "split_indices": [max(0, asked[node]) for node in order],
        "split_type": [0] * nodes,
        "sum_hessian": [0.0] * nodes,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(len(schema.columns)),
            "num_nodes": str(nodes),
            "size_leaf_vector": "1",
        },
    }
    edges = dict(
        zip(
            (column.start for column in model.curves.body.numbers),
            model.curves.body.number_edges(),
            strict=True,
        )
    )
    for at, node in enumerate(order):
        if asked[node] < 0:
            continue
        column = model.curves.body.columns[asked[node]]
        left = model.left[0, number, node, : column.size].tolist()
        found["default_left"][at] = int(column.has_missing and left[-1])
        named = schema.columns[asked[node]]
        if isinstance(named, NumberColumn):
            found["split_conditions"][at] = _condition(named, column, left, edges[column.start])
            continue
        right = [cell for cell, goes_left in enumerate(left[:-1]) if not goes_left]
        right = right or [column.size - 1]  # XGBoost wants one; no row has this
        found["split_type"][at], found["split_conditions"][at] = 1, 0.0
        found["categories_nodes"].append(at)
        found["categories_segments"].append(len(found["categories"]))
        found["categories_sizes"].append(len(right))
        found["categories"] += right
    return found


def _condition(named: NumberColumn, column: CellColumn, left: list[bool], edges: tuple[float, ...]) -> float:
    """Returns the number below which values go left."""
    cells = sum(left[: column.size - column.has_missing])
    if cells == 0 or cells > len(edges):
        return _NOWHERE if cells else -_NOWHERE
    return named.mean + named.std * edges[cells - 1]
