"""Membership inference with shadow models: how hard is an example for models that were not trained on it?

A low loss may mean a member or an easy example; mechanisms.audits.membership uses the loss alone. Shadow
models, which the attacker trains on its own rows, tell the two apart. Each attack here turns the loss of an
example into a score that is low for members, which `rates`, `auc`, `tpr_at` and `halves` take as a loss. The
attacks are offline: one set of shadows serves for all examples, and no shadow was trained on any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.audits.membership import Losses

Array = NDArray[np.float64]

_LEAST_LOSS = 1e-30  # below it the logit of the probability would be infinite
_LEAST_STD = 1e-12  # where all shadows agree


@dataclass(frozen=True, slots=True)
class Shadows:
    """The losses of s shadow models on the `members` (s, n) and `others` (s, m) of `Losses`.

    Raises ValueError without a shadow, for different numbers of shadows, or for losses that are not finite.
    """

    members: Array
    others: Array

    def __post_init__(self) -> None:
        for name, losses in (("members", self.members), ("others", self.others)):
            if losses.ndim != 2 or not len(losses):
                raise ValueError(f"{name} of shape {losses.shape} are not allowed: (shadows, n), at least 1")
            if not np.isfinite(losses).all():
                raise ValueError(f"{name} that are not finite are not allowed: a loss for each example")
        if len(self.members) != len(self.others):
            raise ValueError(
                f"{len(self.members)} shadows of members and {len(self.others)} of others are not allowed: "
                "the same for both"
            )


def calibrated_losses(losses: Losses, shadows: Shadows) -> Losses:
    """Returns each example's loss minus its mean loss over the shadows.

    Watson, Guo, Cormode & Sablayrolles 2022, "On the importance of difficulty calibration in membership
    inference attacks", section 3. Raises ValueError if shadows and losses have different numbers of examples.
    """
    _check_sizes(losses, shadows)
    return Losses(losses.members - shadows.members.mean(axis=0), losses.others - shadows.others.mean(axis=0))


def likelihood_ratio(losses: Losses, shadows: Shadows) -> Losses:
    """Returns how many standard deviations an example's logit lies below its mean over the shadows.

    Carlini et al. 2022, "Membership inference attacks from first principles", the offline attack, (4). It
    assumes that the logit of the true class's probability, p = e^-loss, is normal over models that were not
    trained on the example; a large logit indicates a member. All examples share one standard deviation, as in
    the paper for few shadows. This score falls as that of (4), 1 - Pr[Z > logit], rises, and does not
    saturate. Raises ValueError for fewer than two shadows, or if shadows and losses have different numbers of
    examples.
    """
    _check_sizes(losses, shadows)
    if len(shadows.members) < 2:
        raise ValueError("1 shadow is not allowed: at least 2, for a standard deviation")
    members, others = logits(shadows.members), logits(shadows.others)
    variances = np.concatenate((members.var(axis=0, ddof=1), others.var(axis=0, ddof=1)))
    std = max(float(np.sqrt(variances.mean())), _LEAST_STD)
    return Losses(
        (members.mean(axis=0) - logits(losses.members)) / std,
        (others.mean(axis=0) - logits(losses.others)) / std,
    )


def logits(losses: Array) -> Array:
    """log(p / (1 - p)) of p = e^-loss, for losses of any shape: -loss - log(1 - e^-loss)."""
    bounded = np.maximum(losses, _LEAST_LOSS)
    found: Array = -bounded - np.log(-np.expm1(-bounded))
    return found


def _check_sizes(losses: Losses, shadows: Shadows) -> None:
    for name in ("members", "others"):
        own, theirs = len(getattr(losses, name)), getattr(shadows, name).shape[1]
        if own != theirs:
            raise ValueError(f"{name}: {own} losses and {theirs} of each shadow; allowed: as many")
