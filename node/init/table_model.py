"""Proposes a model that sums over all members make of a table, or says why none suits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.init.look import Look
from node.init.proposal import Model, ModelKind, trained_on
from node.jobs.additive.cells import ROWS_A_COEFFICIENT
from node.jobs.additive.job import rows_needed
from node.jobs.additive.state import Plan
from node.models.additive import cell_columns
from node.system.errors import ConfigError, shown
from node.task.data_schema import TableSchema
from node.task.sections import ADDITIVE
from node.task.shared_noise_keys import DISTRIBUTED
from node.task.table_models import TREES, model_arguments

if TYPE_CHECKING:
    from node.init.options import InitOptions

_MOST_WORK = 2e9
"""Operations of a Newton step, a cube of the values for each output: a minute or two in a run."""
_LEARNED_FROM = 0.7
"""The least part of the training rows: a fifth says when trees help no more, and a split is by chance."""
_FEWEST_WITH_NOISE = 2000
"""Rows of all members: of fewer, noise leaves too few cells a column, and a straight line learns more."""


def table_model(options: InitOptions, found: Look, learned: int) -> Model | None:
    """Returns the additive model or the trees that suit; None for another kind of model.

    `learned`: about how many rows a model is learned from, in all. Raises ConfigError if the owner asked for
    one that does not suit.
    """
    kind = options.model
    if kind not in ("auto", "additive", "trees"):
        return None
    refused = _refusal(options, found, kind)
    if kind == "auto":
        few = options.privacy == DISTRIBUTED and learned < _FEWEST_WITH_NOISE
        return None if refused or few else _additive(found, "a table", exact=options.privacy == "none")
    if refused:
        raise ConfigError(f"--model {kind} is refused{refused}")
    return (
        _additive(found, "as asked", exact=options.privacy == "none")
        if kind == "additive"
        else Model(TREES, {}, 0, "as asked", follows=True)
    )


def _refusal(options: InitOptions, found: Look, kind: ModelKind) -> str:
    """Returns why the model does not suit, as the end of a sentence; "" if it does."""
    schema, is_private = found.schema, options.privacy != "none"
    if not isinstance(schema, TableSchema):
        return ": the data are no table; leave it out"
    if schema.vectors:
        return (
            f": it has curves of single numbers, none of {shown(schema.vectors[0].name)}; leave that out "
            f"(--leave-out), or give --model network"
        )
    if found.counts:
        return " for a target that counts something; allowed: --target-kind number, or --model network"
    if kind == "trees" and is_private:
        return f" with --privacy {options.privacy}: trees have no noise; allowed: --model additive"
    if options.privacy not in ("none", DISTRIBUTED):
        return (
            f" with --privacy {options.privacy}, where each member trains alone; allowed: --peers from 3 on, "
            "which share the noise, or --privacy none"
        )
    if options.search:
        return " beside --search: it has no learning rate; leave that out"
    if not is_private and options.come_and_go == "yes":
        return (
            " with --come-and-go yes: without privacy its sums are of the same members to the end; allowed: "
            f"--come-and-go no, --model network, or --privacy {DISTRIBUTED}"
        )
    return "" if is_private else _too_few_or_many(schema, found.rows, is_forest=kind == "trees")


def _too_few_or_many(schema: TableSchema, rows: int, *, is_forest: bool) -> str:
    model = model_arguments(schema, exact=True)
    columns = tuple((str(kind), int(width)) for kind, width in model["columns"])
    rows_a_value = 0 if is_forest else ROWS_A_COEFFICIENT
    needed = rows_needed(Plan(columns, model["cells"], (), (), rows_a_value=rows_a_value))
    there = int(trained_on(rows) * _LEARNED_FROM)
    if there < needed:
        why = "" if is_forest else ", three for each value of its columns,"
        less = "" if is_forest else "leave columns out (--leave-out), or "
        return (
            f": it needs {needed} rows to learn from here{why} and has about {there}; "
            f"{less}give --model linear"
        )
    if is_forest:  # its sums have no pairs of cells
        return ""
    size = cell_columns(columns, model["cells"])[-1].places.stop
    if model["outputs"] * size**3 > _MOST_WORK:
        return (
            f": {size} values for {model['outputs']} outputs take too long; leave out columns with many "
            "categories (--leave-out), or give --model network"
        )
    return ""


def _additive(found: Look, why: str, *, exact: bool) -> Model:
    if not isinstance(found.schema, TableSchema):
        raise ValueError("an additive model is of a table")
    args = model_arguments(found.schema, exact=exact)
    size = (cell_columns(args["columns"], args["cells"])[-1].places.stop + 1) * args["outputs"]
    return Model(ADDITIVE, args, size, why, follows=True)
