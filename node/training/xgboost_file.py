"""Boosted trees as a model of XGBoost, whose JSON 3.x any program with XGBoost reads.

A row has a column of the table in each feature: a number in its owner's unit, a category as its place in the
schema's list (the list's length for another value), yes as 1 and no as 0, and NaN for a missing value. A
split sends numbers below its condition to the left, and to the right the categories that it lists; a missing
value goes where the split says.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from node.models.additive import CellColumn, Cells
from node.models.tree_ensemble import grown, left_cells
from node.models.trees import Trees
from node.task.data_schema import ClassTarget, NumberColumn, NumberTarget, TableSchema

_VERSION = [3, 0, 0]
_ROOT = 2**31 - 1
_NOWHERE = 3e38
"""A condition that every number meets, or with the other sign none."""


def xgboost_model(model: Trees, schema: TableSchema) -> dict[str, Any]:
    """Returns the JSON value of `model`, which answers logits of the second class, or numbers in their unit.

    Raises ValueError for a model of more than two classes.
    """
    if len(model.base) > 1:
        raise ValueError(
            f"{len(model.base)} classes against the rest are no one model of XGBoost; allowed: two"
        )
    target = schema.target
    unit, start = (target.std, target.mean) if isinstance(target, NumberTarget) else (1.0, 0.0)
    base = start + unit * float(model.base.detach()[0])
    kept = model.trees.nodes[0, : grown(model.trees.nodes[0])]
    trees = [_tree(nodes, model.body, schema, place, unit) for place, nodes in enumerate(kept)]
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


def _tree(tree: torch.Tensor, body: Cells, schema: TableSchema, place: int, unit: float) -> dict[str, Any]:
    """Returns a tree (nodes, numbers), its nodes by level without those that no row reaches."""
    asked, values = (tree[:, 0].int() - 1).tolist(), (tree[:, 1] * unit).tolist()
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
    edges = dict(zip((column.start for column in body.numbers), body.number_edges(), strict=True))
    for at, node in enumerate(order):
        if asked[node] < 0:
            continue
        column = body.columns[asked[node]]
        left = left_cells(tree[node], column.size)
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
