"""What is wrong with a model on some rows, in a few words, for the last line of a run and for the page."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from node.system.errors import shown
from node.training.figures.headline import CONSTANT_ANSWERS, SMALL_IS_GOOD, Headline
from node.training.figures.metrics import chosen_labels, class_name

_MOST_NAMED = 3
_ROUNDING = 1e-9


def flaws_of(
    headline: Headline,
    outputs: torch.Tensor,
    targets: torch.Tensor,
    names: Sequence[str],
    loss: float,
    uniform: float | None,
) -> tuple[str, ...]:
    """Returns what is wrong with outputs (n, ...) for targets (n,), which have this headline and `loss`.

    `names`: those of the classes, as far as they have any; `uniform`: the loss of a uniform answer, None if
    there is none. That a model says one class to every row is in the headline.
    """
    found = []
    if not targets.is_floating_point() and not headline.is_constant:
        found.append(_never_said(outputs, targets, names))
    value, baseline = headline.value, headline.baseline
    if value is not None and baseline is not None:
        worse_by = value - baseline if headline.metric in SMALL_IS_GOOD else baseline - value
        if worse_by > _ROUNDING * max(1.0, abs(baseline)):
            found.append(f"worse than {CONSTANT_ANSWERS[headline.metric]}")
    if uniform is not None and loss > uniform * (1 + _ROUNDING):
        found.append(f"the loss {loss:.3g} is above the {uniform:.3g} of a uniform answer")
    return tuple(filter(None, found))


def _never_said(outputs: torch.Tensor, targets: torch.Tensor, names: Sequence[str]) -> str:
    """Names the classes that some rows have and the model never gives; no numbers: these are the owner's."""
    there, chosen = (set(torch.unique(each).tolist()) for each in (targets, chosen_labels(outputs)))
    labels = sorted(there - chosen)
    if not labels:
        return ""
    told = ", ".join(shown(class_name(names, label)) for label in labels[:_MOST_NAMED])
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return f"it never says {told}{more}, which some rows have"
