"""What was stated before the system was built: simulated figures, goals, and epsilon by honest members.

The figures are means of three or four seeds of a simulation in numpy, whose step sizes were chosen on test
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenarios.study.arms import Where
from scenarios.study.makers import EVERYTHING
from scenarios.study.sweep import Sweep
from scenarios.systems.distributed_dp.arms import ALONE, CENTRAL, DIGITS, FEWER, MNIST, MNIST_FEATURES, USUAL

ByEpsilon = Mapping[float, float]
Stated = Sequence[tuple[Where, ByEpsilon]]
"""By selection and epsilon, what is stated for the arms."""

SIMULATED: Stated = (
    ({**DIGITS.where, **CENTRAL}, {1: 0.904, 3: 0.944, 8: 0.960}),
    ({**DIGITS.where, **USUAL}, {1: 0.891, 3: 0.938, 8: 0.956}),
    ({**DIGITS.where, **ALONE}, {1: 0.797, 3: 0.904, 8: 0.928}),
    ({**MNIST.where, **CENTRAL}, {1: 0.929, 3: 0.944, 8: 0.951}),
    ({**MNIST.where, **USUAL}, {1: 0.925, 3: 0.941, 8: 0.949}),
    ({**MNIST.where, **FEWER}, {1: 0.923, 3: 0.938, 8: 0.947}),
    ({**MNIST.where, **ALONE}, {1: 0.894, 3: 0.921, 8: 0.930}),
    ({**MNIST_FEATURES.where, **CENTRAL}, {1: 0.981, 3: 0.985}),
    ({**MNIST_FEATURES.where, **USUAL}, {1: 0.981, 3: 0.984}),
    ({**MNIST_FEATURES.where, **FEWER}, {1: 0.980, 3: 0.984}),
)
"""Test accuracy."""

GOALS: Stated = (
    ({**DIGITS.where, **USUAL}, {1: 0.87, 3: 0.925, 8: 0.945}),
    ({**MNIST.where, **USUAL}, {1: 0.915, 3: 0.935, 8: 0.945}),
    ({**MNIST_FEATURES.where, **USUAL}, {1: 0.975, 3: 0.982}),
)
"""The least accuracy that shared noise is to reach."""


def stated(sweep: Sweep, table: Stated, among: Where = EVERYTHING) -> dict[str, float]:
    """What a table states for each arm that was run, of those that `among` means."""
    meant = sweep.select(among)
    return {
        arm: figures[epsilon]
        for where, figures in table
        for arm, epsilon in sweep.line("epsilon", where).points.items()
        if epsilon in figures and arm in meant
    }


AUC_BELOW_POOLED: ByEpsilon = {1: 0.03, 3: 0.015, 8: 0.01}
AUC_BELOW_CENTRAL = 0.005
"""How far AUC on Adult may be below all rows without privacy, or else below a trusted server."""

BY_HONEST: Mapping[float, Mapping[int, float]] = {
    1: {5: 1.22, 3: 1.67, 1: 3.6},
    3: {5: 3.9, 3: 6.0, 1: 20},
    8: {5: 11, 3: 21, 1: 84},
}
"""By epsilon, sized for 7 honest of 10: epsilon by the honest members that there are, oneself included."""
BY_HONEST_BATCH = 4096
"""The rows of a step, of 60,000, for which that is."""

FEATURES_GAIN = 0.04
"""How much scattering features gain on MNIST at epsilon 1 and 3, at least."""
STEP_S_AT_MOST = 0.25
BYTES_A_WORD, BYTES_MORE = 10, 40_000
"""What a step may cost ten peers on two cores: seconds, and bytes a peer for d parameters."""
