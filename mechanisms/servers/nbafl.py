"""NbAFL, "noising before model aggregation" (Wei et al. 2020, IEEE TIFS 15): as published and as it is run.

Symbols of the paper, which the names here spell out: N `clients`, K `clients_per_round`, T `rounds`, L
`exposures` (how often one client's upload can be seen), C `clip`, m the smallest local data set, c the
`constant` of the classic Gaussian mechanism (Dwork & Roth 2014, Theorem 3.22):

    c = sqrt(2 ln(1.25 / delta))
    upload:                sigma_U = 2 c C L / (m epsilon)
    download, all N:       sigma_D = 2 c C sqrt(T^2 - L^2 N) / (m N epsilon)         if T > L sqrt N, else 0
    download, K of N:      sigma_D = 2 c C sqrt(T^2 / b^2 - L^2 K) / (m K epsilon)   if T > epsilon / gamma
                           b = -(T / epsilon) ln(1 - N/K + (N/K) exp(-epsilon / T))
                           gamma = -ln(1 - K/N + (K/N) exp(-epsilon / (L sqrt K)))

The first two are Wei et al. 2020, Section III and Theorem 1; the last three Section V, on K-client random
scheduling, which for K = N are the second. Two arms:

- `PaperNbAFL`: clients clip their weights to C in the L2 norm, the factor 2 is there, m is the smallest.
- `FederatedScopeNbAFL`: what FederatedScope's `trainer_nbafl.py` computes, which is not the paper.

Neither has the privacy that its epsilon states. The paper takes a trained model to be a mean over records, so
that one record in m moves it by 2 C / m. Training is no mean: clipped weights move by up to 2 C, whatever m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, Relation, Unit, spent
from mechanisms.arguments import at_least_zero, count, positive, probability
from mechanisms.mechanism import Guarantee
from mechanisms.noise.clipping import Floats, clip_elements, clip_l2
from mechanisms.noise.noise import gaussian, noised
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import Averaging, Federation, Indices, among, fixed_sample

TABLE_EPSILONS = (100.0, 50.0, 10.0)
TABLE_CONSTANTS = (1.0, 2.0, 3.0)
"""FederatedScope's table of nine cells; its noise depends on constant / epsilon alone."""

ONE_CLIENT = Unit("one client's whole data set, over the run", Relation.REPLACE, "L2")
ONE_RECORD = Unit("one record of a client's data", Relation.REPLACE, "L2")


def constant_of(delta: float) -> float:
    """c = sqrt(2 ln(1.25 / delta)), Wei et al. 2020, Section II, after Dwork & Roth 2014, Theorem 3.22."""
    return math.sqrt(2 * math.log(1.25 / probability("delta", delta)))


def delta_of(constant: float) -> float:
    """delta = 1.25 exp(-c^2 / 2): the inverse of `constant_of`. ValueError where that is no probability."""
    return probability("delta of this constant", 1.25 * math.exp(-(positive("constant", constant) ** 2) / 2))


# -- as FederatedScope runs it ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FederatedScopeNbAFL(Averaging):
    """FederatedScope's `trainer_nbafl.py`, formula by formula.

    - An upload gets noise of std `clip` T c / (m_i epsilon): no factor 2, T in the place of L, and m_i the
      client's own number of rows. It is never clipped.
    - Before every broadcast each element is clipped to +-`clip` (so the norm only to clip sqrt d). Where the
      server knows its clients' rows (`sizes_joined`) and T > L sqrt N, with L the clients of a round, it adds
      noise of std 2 clip c sqrt(T^2 - L^2 N) / (m N epsilon), m the smallest.
    """

    federation: Federation
    clients_per_round: int
    epsilon: float
    constant: float
    clip: float
    proximal: float
    grad_clip: float | None
    sizes_joined: bool

    def __post_init__(self) -> None:
        among("clients_per_round", self.clients_per_round, self.federation)
        for name in ("epsilon", "constant", "clip"):
            positive(name, getattr(self, name))
        _judge_training(self.proximal, self.grad_clip)

    @property
    def name(self) -> str:
        """As results name it."""
        return "nbafl-federatedscope"

    @property
    def protects(self) -> str:
        """In a sentence."""
        return (
            "uploads have noise, but are never clipped: nothing bounds what one client's data can do to its "
            f"upload, so the stated epsilon of {self.epsilon:g} stands for nothing and no epsilon is true"
        )

    @property
    def download_noise_std(self) -> float:
        """Of what is broadcast; 0 where the branch does not fire."""
        rounds, clients, exposures = self.federation.rounds, self.federation.clients, self.clients_per_round
        if not self.sizes_joined or not rounds > math.sqrt(clients) * exposures:
            return 0.0
        seen = math.sqrt(rounds**2 - exposures**2 * clients)
        averaged = min(self.federation.rows) * clients
        return 2 * self.clip * self.constant * seen / (averaged * self.epsilon)

    @property
    def figures(self) -> Mapping[str, float]:
        """The noise of the largest client's uploads, that of the smallest's, and that of the download."""
        rows = self.federation.rows
        return {
            "constant / epsilon": self.constant / self.epsilon,
            "least upload noise std": self.upload_noise_std(max(rows)),
            "largest upload noise std": self.upload_noise_std(min(rows)),
            "download noise std": self.download_noise_std,
        }

    def upload_noise_std(self, rows: int) -> float:
        """Of the upload of a client with so many rows."""
        return self.clip * self.federation.rounds * self.constant / (count("rows", rows) * self.epsilon)

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """`clients_per_round` of them."""
        return fixed_sample(clients, self.clients_per_round, rng)

    def broadcast(self, model: Floats, words: Words) -> Floats:
        """Every element clipped, then noise where the branch fires."""
        return _with_noise(clip_elements(model, self.clip), self.download_noise_std, words)

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """The weights as they are, and noise."""
        return _with_noise(weights, self.upload_noise_std(rows), words)


# -- as the paper has it ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PaperNbAFL(Averaging):
    """Wei et al. 2020, Algorithm 1, and Section V where `clients_per_round` are fewer than all.

    `clip` is the L2 norm of a client's weights, all tensors together. The server noises what it has
    aggregated, so the model that is evaluated is the one that is broadcast, as in the paper.
    """

    federation: Federation
    clients_per_round: int
    epsilon: float
    delta: float
    clip: float
    exposures: int
    proximal: float
    grad_clip: float | None

    def __post_init__(self) -> None:
        among("clients_per_round", self.clients_per_round, self.federation)
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        positive("clip", self.clip)
        if count("exposures", self.exposures) > self.federation.rounds:
            raise ValueError(
                f"exposures = {self.exposures} is not allowed: at most {self.federation.rounds}, the rounds"
            )
        _judge_training(self.proximal, self.grad_clip)

    @property
    def name(self) -> str:
        """As results name it."""
        return "nbafl"

    @property
    def protects(self) -> str:
        """In a sentence."""
        return (
            "uploads are clipped and noised before they leave: the paper states epsilon "
            f"{self.epsilon:g} for a record, taking it to move the weights by 2 C / m; clipping alone bounds "
            f"that by 2 C, and so the true epsilon over {self.federation.rounds} rounds is "
            f"{self.guarantee.epsilon:.4g}"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What clipping and the upload noise alone prove, to the server as well: sensitivity 2 C.

        A client may be chosen in every round, and no secret of the sampling is counted on. The download noise
        is on top, on what is private already.
        """
        true = spent(Ledger.of(self.events(self.federation.rounds)), self.delta)
        return Guarantee(ONE_CLIENT, true.epsilon, self.delta, self.epsilon)

    @property
    def claim(self) -> Guarantee:
        """What L uploads would cost if one record did move them by 2 C / m only: L releases of c L / epsilon.

        The paper's epsilon comes from basic composition and the classic formula, which is not proved above 1:
        this may lie on either side of it.
        """
        z = self.constant * self.exposures / self.epsilon
        found = spent(Ledger(((Gaussian(z), self.exposures),)), self.delta)
        outside = "that one record moves clipped weights by at most 2 C / m, which training does not ensure"
        return Guarantee(ONE_RECORD, found.epsilon, self.delta, self.epsilon, outside)

    @property
    def constant(self) -> float:
        """c."""
        return constant_of(self.delta)

    @property
    def least_rows(self) -> int:
        """m."""
        return min(self.federation.rows)

    @property
    def figures(self) -> Mapping[str, float]:
        """Its noise, and what L uploads would cost if a record did move them as it is taken to."""
        return {
            "constant / epsilon": self.constant / self.epsilon,
            "upload noise std": self.upload_noise_std,
            "download noise std": self.download_noise_std,
            "epsilon under the paper's sensitivity": self.claim.epsilon,
        }

    @property
    def upload_noise_std(self) -> float:
        """sigma_U = 2 c C L / (m epsilon)."""
        return 2 * self.constant * self.clip * self.exposures / (self.least_rows * self.epsilon)

    @property
    def download_noise_std(self) -> float:
        """sigma_D, which K = N makes that of all clients; 0 where uploads are noised enough."""
        seen = download_exposures(
            self.epsilon,
            self.federation.rounds,
            self.federation.clients,
            self.clients_per_round,
            self.exposures,
        )
        averaged = self.least_rows * self.clients_per_round
        return 2 * self.constant * self.clip * seen / (averaged * self.epsilon)

    def events(self, rounds: int) -> tuple[Event, ...]:
        """An upload a round, of sigma_U / (2 C) = c L / (m epsilon)."""
        return (Gaussian(self.upload_noise_std / (2 * self.clip)),) * count("rounds", rounds)

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """`clients_per_round` of them."""
        return fixed_sample(clients, self.clients_per_round, rng)

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """w / max(1, ||w|| / C), and noise of sigma_U whatever the client's own rows."""
        return noised(clip_l2(weights, self.clip), self.upload_noise_std, self.clip, words)

    def combine(self, model: Floats, uploads: Sequence[Floats], rows: Sequence[int], words: Words) -> Floats:
        """The mean of the uploads, weighted by rows, and noise of sigma_D."""
        mean = Averaging.combine(self, model, uploads, rows, words)
        return _with_noise(mean, self.download_noise_std, words)


def download_exposures(epsilon: float, rounds: int, clients: int, chosen: int, exposures: int) -> float:
    """sqrt(T^2 / b^2 - L^2 K), for K = `chosen` of N = `clients`; 0 where the download needs no noise.

    Wei et al. 2020, Section V. For K = N: b = 1 and epsilon / gamma = L sqrt N, as in Theorem 1.
    """
    if chosen == clients:  # in closed form: b is 1 only up to rounding, and lost where epsilon is large
        return math.sqrt(max(0.0, rounds**2 - exposures**2 * clients))
    part = chosen / clients
    gamma = -math.log1p(part * math.expm1(-epsilon / (exposures * math.sqrt(chosen))))
    if not rounds > epsilon / gamma:
        return 0.0
    b = -(rounds / epsilon) * math.log1p(math.expm1(-epsilon / rounds) / part)
    return math.sqrt(max(0.0, (rounds / b) ** 2 - exposures**2 * chosen))


def _with_noise(vector: Floats, noise_std: float, words: Words) -> Floats:
    """`vector` (d,) plus noise, in plain float32; itself where `noise_std` is 0. No guarantee rests on it."""
    if noise_std == 0:
        return vector
    noise = np.empty_like(vector)
    gaussian(noise, noise_std, words)
    noise += vector
    return noise


def _judge_training(proximal: float, grad_clip: float | None) -> None:
    at_least_zero("proximal", proximal)
    if grad_clip is not None:
        positive("grad_clip", grad_clip)
