"""The formulas of RPFL, "robust and private federated learning" (Shi, Hu, Wang, Zhu & Han).

From "Distributionally Robust Federated Learning for Differentially Private Data". A client adds Gaussian
noise of `noise_std` to its rows once, keeps the labels, and trains on these rows against all distributions
within a Wasserstein distance rho of them (Lemma 1 there): the mean loss plus rho G(theta), with G a Lipschitz
constant of the loss in a row. A server divides a budget of epsilon among the clients.

The privacy proved here is that of the noised rows. Unit: one record's features, not its label; neighbours:
replace; norm: L2, rows scaled to at most `row_norm`. A client draws its noise once and keeps it, so it is
charged once: all training on the rows is post-processing. Theorem 1's sigma has an unspecified constant; with
any constant of order 1 it is far below what its epsilon needs (`record_epsilon` says by how much). Theorem 2,
on composition, leaves its constant open too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting import gaussian
from mechanisms.arguments import at_least_zero, count, positive, probability

Doubles = NDArray[np.float64]


# -- the budget ------------------------------------------------------------------------------------------


def allocate(weights: Sequence[float] | Doubles, caps: Sequence[float] | Doubles, budget: float) -> Doubles:
    """Returns (n,) epsilons that minimise sum w_i / eps_i, with sum eps_i <= `budget` and eps_i <= b_i.

    `weights` w (n,) are d_i C_i, `caps` b (n,), all above 0. Exact, in O(n log n). The objective decreases in
    every eps_i, so the result exhausts the budget or reaches every cap. Lagrange: an eps_i below its cap is
    tau sqrt(w_i), with one tau for all; so eps_i = min(b_i, tau sqrt(w_i)), and the eps_i reach their caps in
    the order of b_i / sqrt(w_i).

    The mean losses s_i, which the document's clients send for this, do not change the result.
    """
    w, b = _above_zero("weights", weights), _above_zero("caps", caps)
    if len(w) != len(b):
        raise ValueError(f"caps has {len(b)} values for {len(w)} weights; allowed: one each")
    if b.sum() <= positive("budget", budget):
        return b
    roots = np.sqrt(w)
    ratios = b / roots
    order = np.argsort(ratios)
    met = np.concatenate([[0.0], np.cumsum(b[order])[:-1]])  # sum of the caps before each
    left = np.cumsum(roots[order][::-1])[::-1]  # sum of the roots from each on
    taus = (budget - met) / left
    first = int(np.argmax(taus <= ratios[order]))  # the first that stays within its cap
    shared: Doubles = np.minimum(b, taus[first] * roots)
    return shared


def _above_zero(name: str, values: Sequence[float] | Doubles) -> Doubles:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name} has shape {found.shape}; allowed: (n,), n at least 1")
    if not (np.isfinite(found) & (found > 0)).all():
        wrong = found[~(np.isfinite(found) & (found > 0))][0]
        raise ValueError(f"{name} holds {wrong}; allowed: numbers above 0")
    return found


# -- the noise -------------------------------------------------------------------------------------------


def theorem_noise_std(
    epsilon: float, delta: float, lipschitz: float, steps: int, rows: int, convexity: float, constant: float
) -> float:
    """Theorem 1: sigma = sqrt(c G^2 T ln(1 / delta) / (d (d - 1) sqrt(mu))) / epsilon.

    lipschitz: G; steps: T, of a round; rows: d, at least 2; convexity: mu; constant: c, which the document
    leaves open. This is the authors' formula; `record_epsilon` computes the epsilon that it truly gives.
    """
    if count("rows", rows) < 2:
        raise ValueError(f"rows = {rows} is not allowed: at least 2")
    above = positive("constant", constant) * positive("lipschitz", lipschitz) ** 2 * count("steps", steps)
    above *= math.log(1 / probability("delta", delta))
    below = rows * (rows - 1) * math.sqrt(positive("convexity", convexity))
    return math.sqrt(above / below) / positive("epsilon", epsilon)


def record_noise_std(epsilon: float, delta: float, row_norm: float) -> float:
    """The least noise std that makes a row's features (epsilon, delta)-private; Balle & Wang 2018, Thm 8.

    Two rows with an L2 norm of at most `row_norm` differ by up to 2 row_norm.
    """
    return 2 * positive("row_norm", row_norm) * gaussian.noise_multiplier(epsilon, delta)


def record_epsilon(noise_std: float, delta: float, row_norm: float) -> float:
    """The epsilon that noise of `noise_std` truly gives to a row's features; see `record_noise_std`."""
    return gaussian.epsilon(delta, positive("noise_std", noise_std) / (2 * positive("row_norm", row_norm)))


# -- the radius ------------------------------------------------------------------------------------------


def noise_distance(noise_std: float, features: int, rows: int, gamma: float | None) -> float:
    """Bounds the W1 distance of noised rows from the original ones by their mean L2 ||noise||.

    Its expectation is at most sigma sqrt(p), for p `features` (Jensen); that is the document's C / epsilon
    with C = sqrt(p) epsilon sigma. With `gamma` it returns a value that the distance exceeds with probability
    at most gamma, sigma (sqrt(p) + sqrt(2 ln(1 / gamma) / d)), by the concentration of a Lipschitz function
    of Gaussians.
    """
    expected = at_least_zero("noise_std", noise_std) * math.sqrt(count("features", features))
    if gamma is None:
        return expected
    beyond = math.sqrt(2 * math.log(1 / probability("gamma", gamma)) / count("rows", rows))
    return expected + noise_std * beyond


def sample_distance(rows: int, gamma: float, row_norm: float) -> float:
    """eta = row_norm sqrt(2 ln(1 / gamma) / d): how far the rows may be from their distribution.

    It is a dimension-free substitute for the measure concentration of Fournier & Guillin 2015, Theorem 2,
    (ln(c1 / gamma) / (c2 d))^(1 / max(m, 2)), whose constants c1 and c2 are not known.
    """
    return positive("row_norm", row_norm) * math.sqrt(
        2 * math.log(1 / probability("gamma", gamma)) / count("rows", rows)
    )


def radius(noise_std: float, features: int, rows: int, gamma: float, row_norm: float) -> float:
    """rho = eta + C / epsilon: `sample_distance` plus the expected `noise_distance`."""
    return sample_distance(rows, gamma, row_norm) + noise_distance(noise_std, features, rows, None)


# -- the regulariser -------------------------------------------------------------------------------------


def network_lipschitz(matrices: Sequence[torch.Tensor]) -> torch.Tensor:
    """G of cross-entropy on a ReLU network: sqrt(2) times the spectral norms of its layers (out, in).

    For the layers (k, out, in) of k networks it returns (k,). ReLU is 1-Lipschitz; the gradient of softmax
    cross-entropy in the logits, p - y, has a norm of at most sqrt(2). Raises ValueError without a layer.
    """
    if not matrices:
        raise ValueError("matrices is empty; allowed: one a layer")
    product = torch.tensor(math.sqrt(2), dtype=matrices[0].dtype)
    for matrix in matrices:
        product = product * torch.linalg.matrix_norm(matrix, ord=2)
    return product


def proximal_norm(weights: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
    """Returns (k, p): for each row v of `weights` the minimiser of ||u - v||^2 / 2 + threshold_i ||u||_2.

    That is v max(0, 1 - threshold_i / ||v||) (Parikh & Boyd 2014, section 6.5.1): the step for the term
    rho ||theta||_2, with `threshold` (k,) the learning rate times rho. A plain subgradient would oscillate
    around zero.
    """
    norms = torch.linalg.vector_norm(weights, dim=1)
    kept = torch.where(norms > threshold, 1 - threshold / norms, torch.zeros_like(norms))
    return weights * kept.unsqueeze(1)
