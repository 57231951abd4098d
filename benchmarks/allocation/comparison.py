"""Compares RPFL's allocation with a convex solver's, and times it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.spec import Figure, figure
from mechanisms.servers.rpfl import allocate

MOST_CLIENTS = 8
EXCESS_AT_MOST = 1e-6
MANY, MS_AT_MOST = 1000, 5.0

Doubles = NDArray[np.float64]


def findings(cases: int, repeats: int) -> Iterator[Figure]:
    """Yield the largest excess cost in `cases` random cases, then `repeats` times for many clients."""
    excesses = [excess(*draw_case(seed, 1 + seed % MOST_CLIENTS)) for seed in range(cases)]
    note = f"{cases} random cases of 1 to {MOST_CLIENTS} clients, SLSQP"
    worst = max(excesses)
    name = "excess over the solver"
    yield figure("allocation", "cost", name, "", [worst], at_most=EXCESS_AT_MOST, note=note)
    for clients in (MANY, 100 * MANY):
        weights, caps, _ = draw_case(clients, clients)
        taken = [1000 * _seconds(weights, caps, float(caps.sum()) / 2) for _ in range(repeats)]
        at_most = MS_AT_MOST if clients == MANY else None
        yield figure("allocation", f"N={clients}", "time", "ms", taken, at_most=at_most)


def draw_case(seed: int, clients: int) -> tuple[Doubles, Doubles, float]:
    """Draw weights and caps (clients,), and a budget of 0.05 to 1.3 times the sum of the caps."""
    rng = np.random.default_rng(seed)
    weights, caps = np.exp(rng.normal(0, 2, clients)), np.exp(rng.normal(0, 1, clients))
    return weights, caps, float(rng.uniform(0.05, 1.3) * caps.sum())


def excess(weights: Doubles, caps: Doubles, budget: float) -> float:
    """Return the allocation's cost minus the solver's, divided by the solver's."""
    mine, theirs = allocate(weights, caps, budget), solve(weights, caps, budget)
    cost, other = float((weights / mine).sum()), float((weights / theirs).sum())
    return (cost - other) / other


def solve(weights: Doubles, caps: Doubles, budget: float) -> Doubles:
    """Return the allocation (clients,) by a general solver, SLSQP, whose variables are shares of the caps."""
    scale = float((weights / caps).sum())
    found = minimize(
        lambda shares: float((weights / (shares * caps)).sum()) / scale,
        np.full(len(caps), 0.9 * min(1.0, budget / caps.sum())),
        jac=lambda shares: -weights / (shares**2 * caps) / scale,
        bounds=[(1e-9, 1.0)] * len(caps),
        constraints={
            "type": "ineq",
            "fun": lambda shares: (budget - shares @ caps) / caps.sum(),
            "jac": lambda shares: -caps / caps.sum(),
        },
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    solution: Doubles = found.x * caps
    return solution


def _seconds(weights: Doubles, caps: Doubles, budget: float) -> float:
    begun = time.perf_counter()
    allocate(weights, caps, budget)
    return time.perf_counter() - begun
