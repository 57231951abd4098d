"""The outputs of a module that is not trained, once for each row: an output depends on its row alone.

Private steps on such outputs clip each row's gradient. If an output depended on other rows, one row would
move the gradients of all. So rows are taken in padded blocks, as in `clipped_sum`. In them a row's outputs
have the same bits whatever the other rows are and wherever it stands, which random rows test. If no blocks
pass the test, each row is taken by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import torch
from torch import nn

from mechanisms.gradients.blocks import ARRANGEMENTS, Layout
from mechanisms.gradients.side_effects import NotByRow, describe_layer, in_eval_mode, without_side_effects
from mechanisms.gradients.stand_ins import Draw, choose_draw, distant_stand_ins, stand_ins

_BLOCK, _AT_ONCE, _COMPARED = 32, 1024, 3
# The most by which rounding alone makes outputs of a batch and of single rows differ.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


class RowOutputs:
    """Computes the outputs of `module`, in eval mode, for rows like `row` (1, ...).

    Raises NotByRow if the outputs of a row depend on other rows, or if a pass changes the module or draws
    numbers. Raises what the module raises if it refuses all stand-ins.
    """

    def __init__(self, module: nn.Module, row: torch.Tensor) -> None:
        self._module = module
        with in_eval_mode(module), torch.no_grad():
            self.layout = self._choose_layout(row)

    def _choose_layout(self, row: torch.Tensor) -> Layout:
        draw, _ = choose_draw(lambda draw: check_rows(self._module, row, draw))
        first = stand_ins(row, _BLOCK, draw, torch.Generator().manual_seed(2))
        other = distant_stand_ins(row, _BLOCK, draw, torch.Generator().manual_seed(5))
        for lanes, one_thread in ARRANGEMENTS:
            layout = Layout(rows=_BLOCK, lanes=lanes, one_thread=one_thread)
            with layout.threads():
                if layout.keeps_bits(lambda x: (self._module(x),), (first,), (other,)):
                    return layout
        return Layout(rows=1, lanes=1, one_thread=True)

    def __call__(self, rows: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yields the outputs for `rows` (n, ...), some rows at a time, in their order."""
        with in_eval_mode(self._module), torch.no_grad():
            for some in torch.split(rows, _AT_ONCE):
                yield self._outputs(some)

    def _outputs(self, rows: torch.Tensor) -> torch.Tensor:
        parts, order = [], []
        with self.layout.threads():
            for inside, places in self.layout.assign_places(rows):
                parts.append(self._module(self.layout.fill_block(rows[inside], places))[places])
                order.append(inside)
        return torch.cat(parts)[torch.cat(order).argsort()]


def check_rows(module: nn.Module, row: torch.Tensor, draw: Draw) -> None:
    """Raises NotByRow unless stand-ins for `row` (1, ...) have the same outputs in a batch as alone.

    Call it in eval mode, without gradients. `draw` draws the stand-ins. The error names the innermost layer
    that mixes rows.
    """
    x = stand_ins(row, _BLOCK, draw, torch.Generator().manual_seed(1))
    outputs = without_side_effects(module, lambda: module(x))
    if _is_by_row(module, x, outputs):
        return
    layer = describe_layer(module, _find_mixing_layer(module, x))
    raise NotByRow(
        f"{layer} mixes rows: what it makes of a row depends on the other rows in its batch; allowed: "
        "nn.GroupNorm or nn.LayerNorm, or batch norm with statistics of its own that are not trained"
    )


def _is_by_row(module: nn.Module, x: torch.Tensor, outputs: torch.Tensor) -> bool:
    """Whether the first rows of x (n, ...) alone have the same `outputs`, but for rounding."""
    try:
        alone = torch.cat([module(x[place : place + 1]) for place in range(_COMPARED)])
    except (ValueError, RuntimeError):  # batch norm without statistics of its own refuses a single row
        return False
    return torch.allclose(alone, outputs[:_COMPARED], _RELATIVE, _ABSOLUTE, equal_nan=True)


def _find_mixing_layer(module: nn.Module, x: torch.Tensor) -> str:
    """Returns the layer that ends first, of those that mix the rows x (n, ...); "" if no single one does."""
    passed: list[tuple[str, nn.Module, torch.Tensor, torch.Tensor]] = []

    def note(name: str, layer: nn.Module, given: tuple[object, ...], outputs: object) -> None:
        if len(given) == 1 and isinstance(given[0], torch.Tensor) and isinstance(outputs, torch.Tensor):
            passed.append((name, layer, given[0].clone(), outputs.clone()))

    with ExitStack() as stack:
        for name, layer in module.named_modules():
            stack.callback(layer.register_forward_hook(partial(note, name)).remove)
        module(x)
    return next(
        (
            name
            for name, layer, given, outputs in passed
            if len(given) == len(outputs) == len(x) and not _is_by_row(layer, given, outputs)
        ),
        "",
    )
