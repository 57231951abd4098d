"""Gradients of single rows by book-keeping (Bu et al. 2023): one pass forward and back for all rows.

Hooks note each layer's inputs, and where its outputs are in the graph. The backward pass computes the
gradients of these outputs, and none of a parameter. `layers` computes the rows' gradients from both.
"""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import vmap

from mechanisms.gradients.layers import Float64, RowGradients, check_layer, of_layer
from mechanisms.gradients.objective import Objective


class BookKeeping:
    """Computes the gradients of the rows of a block; see `Method`.

    Raises ValueError, with the reason, for a parameter that does not belong to exactly one layer with a rule.
    Only a comparison with another method (`trial`) shows whether something else uses a layer's parameters.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective, self._convert = objective, Float64()
        left = {id(parameter): name for name, parameter in objective.parameters.items()}
        wanted = set(left)
        self._layers: dict[nn.Module, dict[str, str]] = {}  # a parameter's name in the layer: in the model
        for layer in objective.model.modules():
            for name, parameter in layer.named_parameters(recurse=False):
                if id(parameter) not in wanted:
                    continue
                check_layer(layer)
                if id(parameter) not in left:
                    raise ValueError(
                        f"parameter {name!r} of {type(layer).__name__} is that of another layer, too"
                    )
                self._layers.setdefault(layer, {})[name] = left.pop(id(parameter))

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[dict[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...).

        The next call overwrites the gradients. Raises ValueError if a layer is used twice, or not at all.
        """
        inputs: dict[nn.Module, torch.Tensor] = {}
        edges: dict[nn.Module, GradientEdge] = {}

        def note(layer: nn.Module, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            if layer in inputs:
                raise ValueError(f"{type(layer).__name__} is used twice")
            if not output.requires_grad:
                output.requires_grad_()
            inputs[layer] = given[0].detach()
            edges[layer] = get_gradient_edge(output)  # in-place operations on the output do not move it
            return output

        with ExitStack() as stack, torch.enable_grad():
            for layer in self._layers:
                stack.callback(layer.register_forward_hook(note).remove)
            outputs = self._objective.model(x)
            losses = vmap(self._loss_of_one)(outputs, y)
            if len(edges) < len(self._layers):
                raise ValueError("a layer with parameters is not used")
            signals = torch.autograd.grad(losses.sum(), [edges[layer] for layer in self._layers])
        self._convert.restart()
        found = {}
        for (layer, own), signal in zip(self._layers.items(), signals, strict=True):
            for name, gradients in of_layer(layer, inputs[layer], signal, self._convert):
                if name in own:
                    found[own[name]] = gradients
        return found, losses.detach()

    def _loss_of_one(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self._objective.loss(output.unsqueeze(0), target.unsqueeze(0))
