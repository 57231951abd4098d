"""Made-up results of arms with a mechanism and an epsilon."""

from dataclasses import replace

from scenarios.study.arms import Arm
from scenarios.study.cells import Outcome
from scenarios.study.sweep import Sweep
from tests.own_studies import PLAIN, STUDY

SEEDS = (0, 1, 2)
SPREAD = (-0.01, 0.0, 0.01)
"""What a seed does to every arm alike: without pairing it would hide differences of 0.001."""


def sweep(figures: dict[str, float], jitter: float = 0.0) -> Sweep:
    """Makes arms such as "ldp 8": a mechanism, and an epsilon or none."""
    arms, outcomes = [], {}
    for name, figure in figures.items():
        mechanism, *epsilon = name.split()
        factors = {"mechanism": mechanism, **({"epsilon": float(epsilon[0])} if epsilon else {})}
        arms.append(Arm(replace(PLAIN, arm=name), factors))
        turn = len(arms) % 3
        noise = ((jitter, -jitter, 0.0) * 2)[turn : turn + 3]
        outcomes[name] = tuple(
            Outcome((0.0, figure + own + extra), {"lost": 1 - figure}, 1.0)
            for own, extra in zip(SPREAD, noise, strict=True)
        )
    return Sweep(STUDY, SEEDS, tuple(arms), outcomes)


TWO = {"ldp 1": 0.3, "ldp 8": 0.4, "sgd 1": 0.302, "sgd 8": 0.6, "none": 0.7}
