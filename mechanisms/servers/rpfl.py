"""The formulas of RPFL, "robust and private federated learning" (Shi, Hu, Wang, Zhu & Han).

From "Distributionally Robust Federated Learning for Differentially Private Data". A client adds Gaussian
noise of `noise_std` to its rows once and keeps the labels. It minimises the worst loss over all distributions
within a Wasserstein distance rho of these rows, which is the mean loss plus rho G(theta), with G a Lipschitz
constant of the loss in a row (Lemma 1 there). A server divides a budget of epsilon among the clients.

What is known of its privacy. Unit: one record's features, not its label; neighbours: replace; norm: L2, rows
scaled to at most `row_norm`.

- Proved: the cost of publishing the noised rows (`record_epsilon`). RPFL publishes models instead, which are
  post-processing of these rows and cost no more. Noise that a client draws once and keeps is charged once.
  Noise that it draws anew is charged in each round: K Gaussian releases.
- Refuted: Theorem 1, for any value of its open constant c, once a client has enough rows. The exact cost of a
  model after one step is known (`first_step_epsilon`). It grows with the rows, where the theorem states one
  epsilon. Refuted, too: Theorem 2's factor sqrt(K), for the noised rows. Once K is large, K releases cost
  more, for any c0.
- Open: the exact cost of a model after several steps.
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

    `weights` w (n,) are d_i C_i, `caps` b (n,), all above 0. The result is exact and takes O(n log n). The
    objective decreases in every eps_i, so the result exhausts the budget or reaches every cap. By Lagrange an
    eps_i below its cap is tau sqrt(w_i), with one tau for all. So eps_i = min(b_i, tau sqrt(w_i)), and the
    eps_i reach their caps in the order of b_i / sqrt(w_i).

    In the paper clients send their mean losses s_i for this; they do not change the result.
    """
    w, b = _check_above_zero("weights", weights), _check_above_zero("caps", caps)
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


def _check_above_zero(name: str, values: Sequence[float] | Doubles) -> Doubles:
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

    lipschitz: G; steps: T, of a round; rows: d, at least 2; convexity: mu; constant: c, which the paper
    leaves open. This is the authors' formula; `record_epsilon` and `first_step_epsilon` say what its noise
    proves.
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
    """The exact epsilon of publishing a row's features with noise of `noise_std`; see `record_noise_std`.

    It is an upper bound for all that is computed from the noised row.
    """
    return gaussian.epsilon(delta, positive("noise_std", noise_std) / (2 * positive("row_norm", row_norm)))


def first_step_epsilon(noise_std: float, rows: int, delta: float, row_norm: float) -> float:
    """The exact epsilon of a row's features if a logistic regression is published after one full step from 0.

    Its gradient there is the mean of (1/2 - y_j) x~_j over d `rows`, y_j in {0, 1}. It is Gaussian, with a
    standard deviation of sigma / (2 sqrt(d)) in each coordinate. Replacing a row, with norms of at most
    row_norm, moves it by up to row_norm / d. So the noise multiplier is sigma sqrt(d) / (2 row_norm).
    Theorem 1's sigma falls as 1 / sqrt(d (d - 1)), so the multiplier vanishes as d grows, and no constant c
    keeps epsilon. A term (mu / 2) ||theta||^2, which makes the loss strongly convex, has no gradient at 0.
    """
    multiplier = positive("noise_std", noise_std) * math.sqrt(count("rows", rows))
    return gaussian.epsilon(delta, multiplier / (2 * positive("row_norm", row_norm)))


# -- the utility -----------------------------------------------------------------------------------------


def theorem_excess(
    smoothness: float, gradient_bound: float, convexity: float, rounds: int, features: int, noise_std: float
) -> float:
    """Theorem 3: L B^2 / (mu^2 K) (1 + p sigma^2), which is said to bound E[loss(theta^K)] - loss*.

    smoothness: L; gradient_bound: B; convexity: mu; rounds: K; features: p. This is the authors' formula. It
    vanishes as K grows, but with noise on rows the excess does not. For one row x = 1 with noise of sigma and
    the loss (theta x - 1)^2 / 2, the mean gradient is theta (1 + sigma^2) - 1. So the rounds end at
    theta = 1 / (1 + sigma^2), with an excess of sigma^4 / (2 (1 + sigma^2)^2) above loss* = 0.
    """
    above = positive("smoothness", smoothness) * positive("gradient_bound", gradient_bound) ** 2
    spread = 1 + count("features", features) * at_least_zero("noise_std", noise_std) ** 2
    return above / (positive("convexity", convexity) ** 2 * count("rounds", rounds)) * spread


# -- the radius ------------------------------------------------------------------------------------------


def noise_distance(noise_std: float, features: int, rows: int, gamma: float | None) -> float:
    """A bound on the W1 distance of d noised `rows` from the rows themselves, by the mean of ||noise|| (L2).

    gamma None: a bound on the expectation, sigma sqrt(p) for p `features` (Jensen), which is the paper's
    C / epsilon with C = sqrt(p) epsilon sigma. Else a value that the distance exceeds with probability at
    most gamma: sigma (sqrt(p) + sqrt(2 ln(1 / gamma) / d)), by the concentration of a Lipschitz function of
    Gaussians.
    """
    expected = at_least_zero("noise_std", noise_std) * math.sqrt(count("features", features))
    if gamma is None:
        return expected
    beyond = math.sqrt(2 * math.log(1 / probability("gamma", gamma)) / count("rows", rows))
    return expected + noise_std * beyond


def sample_distance(rows: int, gamma: float, row_norm: float) -> float:
    """eta = row_norm sqrt(2 ln(1 / gamma) / d): how far d `rows` may be from their distribution.

    It takes the place of the measure concentration of Fournier & Guillin 2015, Theorem 2, (ln(c1 / gamma) /
    (c2 d))^(1 / max(m, 2)), whose constants c1 and c2 nobody knows, and does not depend on m.
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

    For the layers (k, out, in) of k networks it returns (k,). ReLU is 1-Lipschitz, and the gradient of
    softmax cross-entropy in the logits, p - y, has a norm of at most sqrt(2). Raises ValueError without a
    layer.
    """
    if not matrices:
        raise ValueError("matrices is empty; allowed: one a layer")
    product = torch.tensor(math.sqrt(2), dtype=matrices[0].dtype)
    for matrix in matrices:
        product = product * torch.linalg.matrix_norm(matrix, ord=2)
    return product


def proximal_norm(weights: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
    """Returns (k, p): for each row v of `weights` the minimiser of ||u - v||^2 / 2 + threshold_i ||u||_2.

    It is v max(0, 1 - threshold_i / ||v||) (Parikh & Boyd 2014, section 6.5.1), the step for the term
    rho ||theta||_2, with `threshold` (k,) the learning rate times rho. A plain subgradient step would
    oscillate around zero.
    """
    norms = torch.linalg.vector_norm(weights, dim=1)
    kept = torch.where(norms > threshold, 1 - threshold / norms, torch.zeros_like(norms))
    return weights * kept.unsqueeze(1)
