"""An additive model: each column has a value for each of its cells, and a row's score is the sum of its own.

    score = b + sum over columns j of f_j(cell of x_j)

A column of numbers has cells between rising edges, one more for a missing value if the schema marks these. A
column of yes and no has three cells: no, yes, missing. A category has one for each feature, and one for a
missing value. So a curve f_j is a short list of numbers that a person can read.

A model file needs no code of this package: its metadata has `columns` and `cells` of `task.model.args`, and

    x_j        the features of column j, as the task's schema encodes them
    cell       numbers: how many of body.edges[j] are at most x_j, or `cells` if the second feature is 1
               yes or no: 1 above 0, 0 below 0, else 2;   category: the place of the 1, or the last cell
    score      (w[:, -1] + sum over j of w[:, start_j + cell]) / sqrt(columns + 1),  w = head.weight

where start_j is how many cells the columns before j have, and body.edges has a row for each column of
numbers. Trees after the curves, which find what columns add only together, add to the score what
node.models.tree_ensemble says of `interactions.nodes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from node.models.tree_ensemble import TreeEnsemble

_WIDTHS = {"number": range(1, 3), "boolean": range(1, 3), "category": range(2, 1002)}
_BEYOND = torch.finfo(torch.float32).max
"""An edge that no value reaches: a column with fewer cells has it in place of the others."""


@dataclass(frozen=True)
class CellColumn:
    """A column of a row's features: they begin at `feature`, and its `size` cells at `start`.

    `kind`: "number", "boolean" or "category". `width`: the number of its features.
    """

    kind: str
    feature: int
    width: int
    start: int
    size: int

    @property
    def has_missing(self) -> bool:
        """Whether its last cell is for rows without a value."""
        return self.kind != "number" or self.width > 1

    @property
    def places(self) -> slice:
        """The slice of its cells in all cells."""
        return slice(self.start, self.start + self.size)


def cell_columns(columns: Sequence[Sequence[str | int]], cells: int) -> tuple[CellColumn, ...]:
    """Returns the columns with their places; `columns` are pairs of kind and number of features.

    `cells`: the most cells for values of a column of numbers. Raises ValueError.
    """
    if type(cells) is not int or not 2 <= cells <= 1000:
        raise ValueError(f"cells must be a whole number from 2 to 1000, not {cells}")
    found: list[CellColumn] = []
    feature = start = 0
    for pair in columns:
        kind, width = pair if len(pair) == 2 else ("", 0)
        if type(width) is not int or width not in _WIDTHS.get(str(kind), ()):
            raise ValueError(
                f"columns has {list(pair)}; allowed: ['number', 1 or 2], ['boolean', 1 or 2], where 2 marks "
                "missing values, or ['category', number of features]"
            )
        size = {"number": cells + width - 1, "boolean": 3}.get(str(kind), width + 1)
        found.append(CellColumn(str(kind), feature, width, start, size))
        feature, start = feature + width, start + size
    if not found:
        raise ValueError("columns must have a column")
    return tuple(found)


class Cells(nn.Module):
    """(n, features) -> (n, p + 1): each row has 1 / sqrt(columns + 1) in its cells and in the last place.

    So a row has the norm 1. `edges` (numbers, cells - 1) are rising, by column of numbers.
    """

    def __init__(
        self, columns: Sequence[Sequence[str | int]], cells: int, edges: Sequence[Sequence[float]] = ()
    ) -> None:
        super().__init__()
        self.columns = cell_columns(columns, cells)
        self.size = self.columns[-1].places.stop
        self.numbers = tuple(column for column in self.columns if column.kind == "number")
        self._features = self.columns[-1].feature + self.columns[-1].width
        filled = torch.full((len(self.numbers), cells - 1), _BEYOND)
        self.edges = nn.Parameter(filled, requires_grad=False)  # the same at all peers
        self.set_edges(edges)

    def set_edges(self, edges: Sequence[Sequence[float]]) -> None:
        """Sets the edges of each column of numbers; without any, all its values share a cell."""
        most = self.edges.shape[1]
        if edges and len(edges) != len(self.numbers):
            raise ValueError(
                f"edges has {len(edges)} lists; allowed: {len(self.numbers)}, one for each column of numbers"
            )
        self.edges.fill_(_BEYOND)
        for row, given in zip(self.edges, edges, strict=False):
            if len(given) > most or sorted(set(given)) != list(given):
                raise ValueError(f"edges must be lists of at most {most} rising numbers, not {given}")
            row[: len(given)] = torch.tensor(given)

    @property
    def widest(self) -> int:
        """The most cells of a column."""
        return max(column.size for column in self.columns)

    def cells(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the cells (n, columns) int64 of encoded rows (n, features), from 0 in each column."""
        starts = torch.tensor([column.start for column in self.columns], device=rows.device)
        return self.places(rows) - starts

    @property
    def scale(self) -> float:
        """What a row has in each of its cells."""
        return 1 / math.sqrt(len(self.columns) + 1)

    def number_edges(self) -> tuple[tuple[float, ...], ...]:
        """Returns the edges of each column of numbers, without those that no value reaches."""
        return tuple(tuple(row[row < _BEYOND].tolist()) for row in self.edges)

    def places(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the places (n, columns) int64 of the cells of encoded rows (n, features)."""
        if rows.shape[1:] != (self._features,):
            raise ValueError(f"rows have the shape {tuple(rows.shape[1:])}; allowed: ({self._features},)")
        edges, found = iter(self.edges), []
        for column in self.columns:
            part = rows[:, column.feature : column.feature + column.width]
            last = column.size - 1
            match column.kind:
                case "number":
                    cell = (part[:, :1] >= next(edges)).sum(1)
                    cell = torch.where(part[:, 1] > 0.5, last, cell) if column.has_missing else cell
                case "boolean":
                    cell = torch.where(part[:, 0] == 0, last, (part[:, 0] > 0).long())
                case _:
                    cell = torch.where((part > 0.5).any(1), part.argmax(1), last)
            found.append(cell + column.start)
        return torch.stack(found, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the indicators of `rows`."""
        places = torch.nn.functional.pad(self.places(rows), (0, 1), value=self.size)
        return rows.new_zeros(len(rows), self.size + 1).scatter(1, places, self.scale)


class Additive(nn.Module):
    """Scores (n, outputs) of encoded rows (n, features): cells as the fixed `body`, their values as `head`.

    `columns`: pairs of kind and number of features, in the order of the features; `cells`: the most cells for
    values of a column of numbers; `edges`: between them, by column of numbers, unless a file of weights has
    them. `one_against_rest`: each output is the logit of one class against all others, and what is returned
    are logits whose softmax is the share of each class's probability. `trees`: at most so many an output, of
    so many levels (`depth`), add to the curves; 0: none do.

    `errors` (outputs, p): the standard error of each value, with the mean of its column fixed; 0: unknown.
    `rows` (p,): how many rows each cell has; 0 if nobody counted them.
    """

    def __init__(
        self,
        columns: Sequence[Sequence[str | int]],
        outputs: int,
        cells: int = 31,
        edges: Sequence[Sequence[float]] = (),
        one_against_rest: bool = False,
        trees: int = 0,
        depth: int = 4,
    ) -> None:
        super().__init__()
        if type(outputs) is not int or outputs < 1:
            raise ValueError(f"outputs must be a whole number above 0, not {outputs}")
        self.body = Cells(columns, cells, edges)
        self.head = nn.Linear(self.body.size + 1, outputs, bias=False)
        nn.init.zeros_(self.head.weight)
        self._one_against_rest = one_against_rest
        is_alone = type(trees) is int and trees == 0
        self.interactions = None if is_alone else TreeEnsemble(outputs, trees, depth, self.body.widest)
        self.errors = nn.Parameter(torch.zeros(outputs, self.body.size), requires_grad=False)
        self.rows = nn.Parameter(torch.zeros(self.body.size), requires_grad=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the scores of `rows`: logits for classes."""
        scores: torch.Tensor = self.head(self.body(rows))
        if self.interactions is not None:
            scores = scores + self.interactions(self.body.cells(rows))
        return nn.functional.logsigmoid(scores) if self._one_against_rest else scores

    @property
    def values(self) -> torch.Tensor:
        """(outputs, p): what each cell adds to a score."""
        return self.head.weight.detach()[:, :-1] * self.body.scale

    @property
    def base(self) -> torch.Tensor:
        """(outputs,): the score of a row before any column adds to it."""
        return self.head.weight.detach()[:, -1] * self.body.scale

    def contributions(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns what each column adds to the score of each row: (n, columns, outputs)."""
        return self.values.T[self.body.places(rows)]

    def added_together(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns what the trees add to the score of each row: (n, outputs), zeros without trees."""
        if self.interactions is None:
            return rows.new_zeros(len(rows), len(self.base))
        found: torch.Tensor = self.interactions(self.body.cells(rows))
        return found

    def set_curves(self, values: torch.Tensor, base: torch.Tensor) -> None:
        """Sets what cells (outputs, p) add, and the score before (outputs,)."""
        with torch.no_grad():
            self.head.weight.copy_(torch.cat([values, base.unsqueeze(1)], 1) / self.body.scale)
