"""NbAFL, "noising before model aggregation" (Wei et al. 2020, IEEE TIFS 15): as published and as implemented.

The paper's symbols and the names here: N `clients`, K `clients_per_round`, T `rounds`, L `exposures` (how
often one client's upload can be seen), C `clip`, m the size of the smallest local data set, c the `constant`
of the classic Gaussian mechanism (Dwork & Roth 2014, Theorem 3.22):

    c = sqrt(2 ln(1.25 / delta))
    upload:                sigma_U = 2 c C L / (m epsilon)
    download, all N:       sigma_D = 2 c C sqrt(T^2 - L^2 N) / (m N epsilon)         if T > L sqrt N, else 0
    download, K of N:      sigma_D = 2 c C sqrt(T^2 / b^2 - L^2 K) / (m K epsilon)   if T > epsilon / gamma
                           b = -(T / epsilon) ln(1 - N/K + (N/K) exp(-epsilon / T))
                           gamma = -ln(1 - K/N + (K/N) exp(-epsilon / (L sqrt K)))

The upload and the first download formula are Wei et al. 2020, Section III and Theorem 1. The last three lines
are Section V, on K-client random scheduling; for K = N they equal the first download formula. Two classes:

- `PaperNbAFL`: clients clip their weights to C in the L2 norm, with the factor 2 and the smallest m.
- `FederatedScopeNbAFL`: what FederatedScope's `trainer_nbafl.py` computes, which differs from the paper.

Neither has the privacy that its epsilon states. The paper treats a trained model as a mean over m records,
which one record moves by 2 C / m. Training is not a mean: one record may move clipped weights by up to 2 C,
for any m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, Relation, Unit, privacy_spent
from mechanisms.arguments import at_least_zero, count, positive, probability
from mechanisms.mechanism import Guarantee
from mechanisms.noise.clipping import Floats, clip_elements, clip_l2
from mechanisms.noise.noise import fill_gaussian, noised
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import FixedSample, State, Upload

TABLE_EPSILONS = (100.0, 50.0, 10.0)
TABLE_CONSTANTS = (1.0, 2.0, 3.0)
"""The axes of FederatedScope's table of nine cells; the noise depends on constant / epsilon alone."""

ONE_CLIENT = Unit("one client's whole data set, over the run", Relation.REPLACE, "L2")
ONE_RECORD = Unit("one record of a client's data", Relation.REPLACE, "L2")


def constant_of(delta: float) -> float:
    """c = sqrt(2 ln(1.25 / delta)), Wei et al. 2020, Section II, after Dwork & Roth 2014, Theorem 3.22."""
    return math.sqrt(2 * math.log(1.25 / probability("delta", delta)))


def delta_of(constant: float) -> float:
    """delta = 1.25 exp(-c^2 / 2), the inverse of `constant_of`. ValueError if that is not a probability."""
    return probability("delta of this constant", 1.25 * math.exp(-(positive("constant", constant) ** 2) / 2))


def epsilon_of_clipped_steps(
    movement: float, steps: int, noise_std: float, rounds: int, delta: float
) -> float:
    """Returns an epsilon that holds for noised uploads that nobody clips, if clients clip their gradients.

    `movement`: how far one step moves the weights at most (L2): the learning rate times the clip of the
    gradient, without momentum and weight decay. Training begins at the broadcast, which all know, and takes
    `steps` steps. So the weights of two data sets of equal size differ by at most 2 movement steps, and
    uploads with noise of `noise_std` are `rounds` Gaussian releases of that sensitivity. The unit is
    `ONE_CLIENT`.
    """
    farthest = 2 * positive("movement", movement) * count("steps", steps)
    release = Gaussian(positive("noise_std", noise_std) / farthest)
    return privacy_spent(Ledger(((release, count("rounds", rounds)),)), delta).epsilon


# -- as FederatedScope runs it ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FederatedScopeNbAFL(FixedSample):
    """FederatedScope's `trainer_nbafl.py`, formula by formula.

    - A client adds noise of std `clip` T c / (m_i epsilon) to its upload: without the factor 2, with T
      instead of L, and with m_i, its own number of rows. It never clips the upload.
    - Before every broadcast the server clips each element to +-`clip`, and so the norm only to clip sqrt(d).
      If it knows its clients' rows (`sizes_joined`) and T > L sqrt(N), it adds noise of std
      2 clip c sqrt(T^2 - L^2 N) / (m N epsilon), with the smallest m. Here L is the clients of a round.
    """

    epsilon: float
    constant: float
    clip: float
    proximal: float = field()  # without a default, as the base's is no field's
    grad_clip: float | None = field()
    sizes_joined: bool

    name = "nbafl-federatedscope"

    def __post_init__(self) -> None:
        FixedSample.__post_init__(self)
        for name in ("epsilon", "constant", "clip"):
            positive(name, getattr(self, name))
        _check_training(self.proximal, self.grad_clip)

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            "uploads have noise, but are never clipped: nothing here bounds what one client's data can do to "
            f"its upload, so the stated epsilon of {self.epsilon:g} is not proved"
        )

    @property
    def download_noise_std(self) -> float:
        """The std of the broadcast's noise; 0 unless `sizes_joined` and T > L sqrt N."""
        rounds, clients, exposures = self.federation.rounds, self.federation.clients, self.clients_per_round
        if not self.sizes_joined or not rounds > math.sqrt(clients) * exposures:
            return 0.0
        seen = math.sqrt(rounds**2 - exposures**2 * clients)
        averaged = min(self.federation.rows) * clients
        return 2 * self.clip * self.constant * seen / (averaged * self.epsilon)

    @property
    def figures(self) -> Mapping[str, float]:
        """c / epsilon, and the noise std of the largest and smallest client's upload and of the download."""
        rows = self.federation.rows
        return {
            "constant / epsilon": self.constant / self.epsilon,
            "least upload noise std": self.upload_noise_std(max(rows)),
            "largest upload noise std": self.upload_noise_std(min(rows)),
            "download noise std": self.download_noise_std,
        }

    def upload_noise_std(self, rows: int) -> float:
        """The std of the noise on the upload of a client with `rows` rows."""
        return self.clip * self.federation.rounds * self.constant / (count("rows", rows) * self.epsilon)

    def broadcast(self, model: Floats, words: Words) -> Floats:
        """Clips every element, then adds noise of `download_noise_std`."""
        return _with_noise(clip_elements(model, self.clip), self.download_noise_std, words)

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """Adds noise to the weights without clipping them."""
        return _with_noise(weights, self.upload_noise_std(rows), words)


# -- as the paper defines it -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PaperNbAFL(FixedSample):
    """Wei et al. 2020, Algorithm 1, and Section V if a round samples fewer than all clients.

    `clip` bounds the L2 norm of a client's weights, all tensors together. The server noises the aggregate: as
    in the paper, the model that is evaluated is the one that is broadcast.
    """

    epsilon: float
    delta: float
    clip: float
    exposures: int
    proximal: float = field()  # without a default, as the base's is no field's
    grad_clip: float | None = field()

    name = "nbafl"

    def __post_init__(self) -> None:
        FixedSample.__post_init__(self)
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        positive("clip", self.clip)
        if count("exposures", self.exposures) > self.federation.rounds:
            raise ValueError(
                f"exposures = {self.exposures} is not allowed: at most {self.federation.rounds}, the rounds"
            )
        _check_training(self.proximal, self.grad_clip)

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            "uploads are clipped and noised before they leave: the paper states epsilon "
            f"{self.epsilon:g} for a record, taking it to move the weights by 2 C / m; clipping alone bounds "
            f"that by 2 C, and so the epsilon proved over {self.federation.rounds} rounds is "
            f"{self.guarantee.epsilon:.4g}"
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that clipping and upload noise give, with sensitivity 2 C, also against the server.

        It holds even if a client is chosen in every round and the sampling is public. The download noise is
        added to values that are private already.
        """
        proved = privacy_spent(Ledger.of(self.events(self.federation.rounds)), self.delta)
        return Guarantee(ONE_CLIENT, proved.epsilon, self.delta, self.epsilon)

    @property
    def claim(self) -> Guarantee:
        """The cost of L uploads if one record moved them by only 2 C / m: L releases with z = c L / epsilon.

        It may be smaller or larger than the paper's epsilon, which follows from basic composition and from
        the classic formula, which is not proved above 1.
        """
        z = self.constant * self.exposures / self.epsilon
        found = privacy_spent(Ledger(((Gaussian(z), self.exposures),)), self.delta)
        outside = "that one record moves clipped weights by at most 2 C / m, which training does not ensure"
        return Guarantee(ONE_RECORD, found.epsilon, self.delta, self.epsilon, outside)

    @property
    def constant(self) -> float:
        """c = sqrt(2 ln(1.25 / delta))."""
        return constant_of(self.delta)

    @property
    def least_rows(self) -> int:
        """m, the rows of the smallest client."""
        return min(self.federation.rows)

    @property
    def figures(self) -> Mapping[str, float]:
        """c / epsilon, the noise, and the cost of L uploads under the paper's assumption (`claim`)."""
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
        """sigma_D for K of N clients; 0 if the uploads' noise suffices."""
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
        """One upload per round, with noise multiplier sigma_U / (2 C) = c L / (m epsilon)."""
        return (Gaussian(self.upload_noise_std / (2 * self.clip)),) * count("rounds", rounds)

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """w / max(1, ||w|| / C) plus noise of sigma_U, whatever the client's own number of rows."""
        return noised(clip_l2(weights, self.clip), self.upload_noise_std, self.clip, words)

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """The mean of the uploads, weighted by rows, plus noise of sigma_D."""
        mean, state = FixedSample.combine(self, model, state, uploads, words)
        return _with_noise(mean, self.download_noise_std, words), state


def download_exposures(epsilon: float, rounds: int, clients: int, chosen: int, exposures: int) -> float:
    """sqrt(T^2 / b^2 - L^2 K), for K = `chosen` of N = `clients`; 0 if the download needs no noise.

    Wei et al. 2020, Section V. For K = N: b = 1 and epsilon / gamma = L sqrt N, as in Theorem 1.
    """
    if chosen == clients:  # then b is 1, but as computed below is inaccurate for a large epsilon
        return math.sqrt(max(0.0, rounds**2 - exposures**2 * clients))
    part = chosen / clients
    gamma = -math.log1p(part * math.expm1(-epsilon / (exposures * math.sqrt(chosen))))
    if not rounds > epsilon / gamma:
        return 0.0
    b = -(rounds / epsilon) * math.log1p(math.expm1(-epsilon / rounds) / part)
    return math.sqrt(max(0.0, (rounds / b) ** 2 - exposures**2 * chosen))


def _with_noise(vector: Floats, noise_std: float, words: Words) -> Floats:
    """Returns `vector` (d,) plus noise in plain float32, for which nothing is proved; itself for no noise."""
    if noise_std == 0:
        return vector
    noise = np.empty_like(vector)
    fill_gaussian(noise, noise_std, words)
    noise += vector
    return noise


def _check_training(proximal: float, grad_clip: float | None) -> None:
    at_least_zero("proximal", proximal)
    if grad_clip is not None:
        positive("grad_clip", grad_clip)
