"""Audits of mechanisms that have a server: NbAFL, DP-FedAvg, a book's DP-FedAvg, labels, rows, RPFL.

An audit runs only the hooks that release something, on the worst that a client or record can bring to them.
Nobody trains. What a server does to values that are already released, as NbAFL's download noise, is
post-processing, and is not audited.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.audit.canaries import Present
from benchmarks.audit.case import DELTA, EPSILON, MANY, Case, Standing, proved_claim, stated_claim
from benchmarks.audit.offers import EXACT, RADIUS, gaussian_rows, lengthen, opposite_pair
from benchmarks.audit.records import RESPONSE
from benchmarks.audit.steps import ABREAST, SAMPLED, likelihood_ratio, release_abreast
from mechanisms.accounting import gaussian
from mechanisms.audits.audit import Array, Method, Pair, Release, each_row
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import SystemWords, Words
from mechanisms.servers.adaptive_clip import AdaptiveClip, adaptive_clip
from mechanisms.servers.dp_fedavg import DPFedAvg, Flat, Layers, dp_fedavg, dp_fedavg_within
from mechanisms.servers.dp_fedavg_book import BookDPFedAvg
from mechanisms.servers.estimators import ClippedDenominator
from mechanisms.servers.label_server import LabelsOnce
from mechanisms.servers.nbafl import PaperNbAFL, constant_of
from mechanisms.servers.row_noise import NoisyRows, row_noise
from mechanisms.servers.rpfl_server import Rpfl, rpfl_of
from mechanisms.servers.server import Federation, Trained, Upload

ROWS, ROUNDS, LEAST = 10, 5, 9
"""The rows of a client, the rounds of DP-FedAvg, and W_min of its clipped denominator."""
_FAR = 3.0
"""The norm of an update before the clip, in multiples of the clip."""


def server_cases() -> list[Case]:
    """Return the cases of all mechanisms, mechanism by mechanism."""
    return [
        *nbafl_cases(),
        *dp_fedavg_cases(),
        *adaptive_cases(),
        *book_cases(),
        *label_cases(),
        *row_cases(),
        *rpfl_cases(),
    ]


# -- NbAFL ---------------------------------------------------------------------------------------------


def nbafl() -> PaperNbAFL:
    """Return NbAFL of one round, whose upload noise proves EPSILON for a client's data set."""
    multiplier = gaussian.noise_multiplier(EPSILON, DELTA)
    return PaperNbAFL(
        federation=Federation((ROWS, ROWS), 1, (2,)),
        clients_per_round=2,
        epsilon=constant_of(DELTA) / (ROWS * multiplier),
        delta=DELTA,
        clip=RADIUS,
        exposures=1,
        proximal=0.0,
        grad_clip=None,
    )


def uploads(mechanism: PaperNbAFL) -> Release:
    """Return a release that uploads each row as the weights (d,) of a client."""
    start = np.zeros(2, np.float32)
    return each_row(
        lambda x, words: mechanism.upload(x.astype(np.float32), start, ROWS, words).astype(np.float64)
    )


def nbafl_cases() -> list[Case]:
    """The upload; neighbours: two data sets whose weights are beyond the clip, in opposite directions.

    The paper's own epsilon is for a record, which it takes to move the weights by 2 C / m, with m records.
    Its neighbours are weights so far apart. Nobody proved that training keeps to that, so the claim is open.
    """
    mechanism = nbafl()
    sound = Case(
        mechanism="nbafl, upload",
        release=uploads(mechanism),
        pair=lengthen(opposite_pair(2), _FAR),
        claim=proved_claim(mechanism.guarantee, "the upload of a run of one round", EXACT),
        subject=mechanism,
        covers=("nbafl",),
    )
    assumed = replace(
        sound,
        mechanism="nbafl, upload, as stated",
        pair=opposite_pair(2, RADIUS / ROWS),
        claim=stated_claim(mechanism.claim, "the upload, if a record moves it by 2 C / m"),
        covers=(),
        wanted=Standing.OPEN,
    )
    bare = gaussian_rows(mechanism.upload_noise_std)
    return [
        sound,
        replace(sound, fault="no clip", release=bare, quick_trials=MANY),
        assumed,
    ]


# -- DP-FedAvg -----------------------------------------------------------------------------------------


def models(mechanism: DPFedAvg | BookDPFedAvg, combining: DPFedAvg | BookDPFedAvg, shift: float) -> Release:
    """Return a release of the models of all rounds (n, rounds), with a user (1) or without (0).

    One call makes ABREAST runs at once: each user has a coordinate of its own in every layer. What is
    released is the projection on it, divided by `shift`, the most that a user moves the model; the noise of
    the other coordinates is independent. `combining` adds up what `mechanism` uploads; if they differ, one of
    them has a fault.
    """
    sizes = mechanism.federation.sizes
    start = np.zeros(sum(sizes), np.float32)

    def upload(user: int, words: Words) -> Floats:
        weights = start.copy()
        weights[user :: sizes[0]] = _FAR * RADIUS
        return mechanism.upload(weights, start, ROWS, words)

    def in_a_round(present: Present, words: Words) -> Array:
        chosen = np.intersect1d(present, mechanism.sample(ABREAST, seeded_generator(words)))
        sent = [Upload(user, ROWS, upload(user, words)) for user in chosen.tolist()]
        model = combining.combine(start, combining.start(), sent, words)[0].astype(np.float64)
        return np.asarray(model.reshape(len(sizes), -1).sum(axis=0) / (math.sqrt(len(sizes)) * shift))

    return release_abreast(in_a_round, mechanism.federation.rounds)


def seeded_generator(words: Words) -> np.random.Generator:
    """Return a generator whose seed is drawn from `words`."""
    seed = np.empty(8, dtype=np.uint32)
    words.fill(seed)
    return np.random.default_rng(seed)


def users(rounds: int, layers: int = 1) -> Federation:
    """Return a federation of ABREAST users; each of `layers` layers has as many parameters."""
    return Federation((ROWS,) * ABREAST, rounds, (ABREAST,) * layers)


def dp_fedavg_cases() -> list[Case]:
    """The models of all rounds; neighbours: add or remove a user, whose update is beyond the clip.

    With the fixed denominator no other user matters. With the clipped one the worst sample without the user
    weighs W_min, and all of it is opposite to the user (mechanisms.servers.estimators): there all users are
    in the sample.
    """
    q = 0.2
    sampled = dp_fedavg_within(
        federation=users(ROUNDS),
        epsilon=EPSILON,
        sampling_probability=q,
        clip=RADIUS,
        per_layer=False,
        estimator="fixed",
        weight_cap=float(ROWS),
        delta=DELTA,
    )
    shift = RADIUS / (q * ABREAST)
    release = models(sampled, sampled, shift)
    pair = Pair.of(np.zeros(1), np.ones(1))
    sound = Case(
        mechanism=f"dp-fedavg, {ROUNDS} rounds",
        release=release,
        pair=Pair(pair.x0, pair.x1, np.zeros(ROUNDS), np.ones(ROUNDS)),
        claim=proved_claim(
            sampled.guarantee, f"the models of a run of {ROUNDS} rounds, a fifth of users", SAMPLED
        ),
        subject=sampled,
        covers=("dp-fedavg-within", "dp-fedavg:fixed"),
        method=Method.RATIO,
        score=likelihood_ratio(q, sampled.noise_multiplier),
        quick_trials=20_000,
        least_found=0.1,
    )
    quiet = replace(sampled, noise_multiplier=sampled.noise_multiplier / 2)
    unclipped = replace(sampled, clip=Flat(_FAR * RADIUS))
    layered = dp_fedavg(
        federation=users(1, layers=2),
        sampling_probability=1.0,
        noise_multiplier=gaussian.noise_multiplier(EPSILON, DELTA),
        clip=RADIUS,
        per_layer=True,
        estimator="fixed",
        weight_cap=float(ROWS),
        delta=DELTA,
    )
    layers = Case(
        mechanism="dp-fedavg, two layers",
        release=models(layered, layered, RADIUS / ABREAST),
        pair=pair,
        claim=proved_claim(layered.guarantee, "the model of a run of one round, all users", EXACT),
        subject=layered,
        covers=("dp-fedavg:fixed",),
    )
    whole = replace(layered, clip=Layers((ABREAST, ABREAST), (RADIUS, RADIUS)))
    return [
        sound,
        replace(sound, fault="noise halved", release=models(sampled, quiet, shift), quick_trials=MANY),
        replace(sound, fault="no clip", release=models(unclipped, sampled, shift)),
        layers,
        replace(
            layers,
            fault="each layer clipped to S",
            release=models(whole, layered, RADIUS / ABREAST),
            quick_trials=20_000,
        ),
        *_clipped_denominator_cases(),
    ]


def _clipped_denominator_cases() -> list[Case]:
    """The clipped denominator: LEAST users with opposite updates, and the user or not (`dp_fedavg_cases`)."""
    mechanism = DPFedAvg(
        federation=Federation((ROWS,) * (LEAST + 1), 1, (2,)),
        sampling_probability=1.0,
        noise_multiplier=gaussian.noise_multiplier(EPSILON, DELTA),
        clip=Flat(RADIUS),
        estimator=ClippedDenominator(float(LEAST)),
        weight_cap=float(ROWS),
        delta=DELTA,
    )
    start = np.zeros(2, np.float32)
    far = np.array([_FAR * RADIUS, 0.0], np.float32)

    def uploads_of(present: int) -> list[Upload]:
        """Return what the users send, without noise: it is the same in all runs."""
        weights = enumerate([-far] * LEAST + [far] * present)
        none = SystemWords()
        return [Upload(user, ROWS, mechanism.upload(own, start, ROWS, none)) for user, own in weights]

    sent_without, sent_with = uploads_of(0), uploads_of(1)

    def release(x: Array, words: Words) -> Array:
        sent = sent_with if x[0] else sent_without
        return mechanism.combine(start, mechanism.start(), sent, words)[0].astype(np.float64)

    sound = Case(
        mechanism="dp-fedavg, clipped denominator",
        release=each_row(release),
        pair=Pair(
            np.zeros(1), np.ones(1), np.array([-RADIUS, 0.0]), np.array([(1 - LEAST) / (1 + LEAST), 0.0])
        ),
        claim=proved_claim(mechanism.guarantee, "the model of a run of one round, all users", EXACT),
        subject=mechanism,
        covers=("dp-fedavg:clipped",),
        quick_trials=5_000,
    )
    return [sound]


def adaptive_cases() -> list[Case]:
    """DP-FedAvg with an adaptive clip; neighbours: a user whose update is as long as the clip, or nobody.

    The next clip shows the noised count of updates within the clip. The score adds the update and the count,
    each weighted by its signal over its variance.
    """
    multiplier = gaussian.noise_multiplier(EPSILON, DELTA)
    mechanism = adaptive_clip(
        federation=Federation((ROWS,), 1, (2,)),
        sampling_probability=1.0,
        noise_multiplier=multiplier,
        delta=DELTA,
        start_clip=RADIUS,
        count_noise_std=multiplier,
    )
    stds = np.array([mechanism.update_noise_multiplier * RADIUS, math.inf, mechanism.count_noise_std])
    pair = Pair(np.zeros(1), np.ones(1), np.array([0.0, 0.0, 0.5]), np.array([RADIUS, 0.0, 1.0]))

    def score(released: Array) -> Array:
        return np.asarray((released - (pair.y0 + pair.y1) / 2) @ ((pair.y1 - pair.y0) / stds**2))

    sound = Case(
        mechanism="dp-fedavg-adaptive",
        release=models_and_counts(mechanism),
        pair=pair,
        claim=proved_claim(
            mechanism.guarantee,
            "the model and the next clip of a run of one round, all users",
            f"{EXACT}; Andrew et al. 2021, Theorem 1",
        ),
        subject=mechanism,
        covers=("dp-fedavg-adaptive",),
        score=score,
        quick_trials=10_000,
    )
    free = replace(mechanism, noise_multiplier=1 / math.hypot(1 / multiplier, 1 / (2 * multiplier)))
    halved = replace(mechanism, noise_multiplier=multiplier / 2)
    return [
        sound,
        replace(sound, fault="noise halved", release=models_and_counts(halved)),
        replace(sound, fault="the count is not charged", release=models_and_counts(free), quick_trials=MANY),
    ]


def models_and_counts(mechanism: AdaptiveClip) -> Release:
    """Return a release of rows (d + 1,): the model, and the noised share that the next clip shows."""
    d = mechanism.federation.dimension
    start, state = np.zeros(d, np.float32), mechanism.start()
    update = np.zeros(d, np.float32)
    update[0] = RADIUS
    trained = Trained(0, update, start, ROWS, 1, 1.0, mechanism.told(state), np.zeros(0, np.float32))
    user = [Upload(0, ROWS, mechanism.send(trained, SystemWords()).vector)]

    def release(x: Array, words: Words) -> Array:
        model, after = mechanism.combine(start, state, user if x[0] else [], words)
        share = mechanism.quantile - math.log(after.clip / state.clip) / mechanism.clip_learning_rate
        return np.append(model.astype(np.float64), share)

    return each_row(release)


def book_cases() -> list[Case]:
    """The book's sum; neighbours: a user's update, beyond the clip, or zeros in its place.

    The book's settings have an epsilon of 1e13, which is more than any audit can find. Here the same code
    adds the noise of EPSILON.
    """
    scale = 0.5
    mechanism = BookDPFedAvg(
        federation=users(1),
        clients_per_round=ABREAST,
        scale=scale,
        clip_radius=RADIUS,
        noise_std=gaussian.noise_multiplier(EPSILON, DELTA) * scale * RADIUS,
        delta=DELTA,
    )
    sound = Case(
        mechanism="dp-fedavg-book",
        release=models(mechanism, mechanism, scale * RADIUS),
        pair=Pair.of(np.zeros(1), np.ones(1)),
        claim=proved_claim(mechanism.guarantee, "the model of a run of one round, all users", EXACT),
        subject=mechanism,
        covers=("dp-fedavg-book",),
    )
    unclipped = replace(mechanism, clip_radius=_FAR * RADIUS)
    return [sound, replace(sound, fault="no clip", release=models(unclipped, mechanism, scale * RADIUS))]


# -- examples that are noised once ---------------------------------------------------------------------


def label_cases() -> list[Case]:
    """The labels of a client; neighbours: the first or the second of ten classes, with equal features."""
    mechanism = LabelsOnce(Federation((ROWS,), 1, (2,)), 1, 10, EPSILON)

    def release_of(by: LabelsOnce) -> Release:
        def release(inputs: Array, words: Words) -> Array:
            x = np.zeros((len(inputs), 1), np.float32)
            return by.examples(x, inputs[:, 0].astype(np.int64), 0, words)[1][:, None].astype(np.float64)

        return release

    sound = Case(
        mechanism="label-dp, 10 classes",
        release=release_of(mechanism),
        pair=Pair.of(np.zeros(1), np.ones(1)),
        claim=proved_claim(mechanism.guarantee, "a label, drawn once", RESPONSE),
        subject=mechanism,
        covers=("label-dp",),
        method=Method.RATIO,
        score=lambda released: (released[:, 0] == 1).astype(np.float64),
        quick_trials=MANY,
    )
    doubled = replace(mechanism, epsilon=2 * EPSILON)
    return [sound, replace(sound, fault="epsilon doubled", release=release_of(doubled))]


def rows_of(mechanism: NoisyRows) -> Release:
    """Return a release of the rows (n, d) on which the first client trains; a row is one run."""

    def release(inputs: Array, words: Words) -> Array:
        labels = np.zeros(len(inputs), np.int64)
        kept = mechanism.examples(inputs.astype(np.float32), labels, 0, words)
        return mechanism.examples_of_round(*kept, 0, words)[0].astype(np.float64)

    return release


def row_cases() -> list[Case]:
    """A client's rows; neighbours: two rows beyond `row_norm`, in opposite directions."""
    mechanism = row_noise(Federation((ROWS,), 1, (2,)), 1, EPSILON, DELTA, RADIUS)
    sound = Case(
        mechanism="row-noise",
        release=rows_of(mechanism),
        pair=lengthen(opposite_pair(2), _FAR),
        claim=proved_claim(mechanism.guarantee, "the noised rows, published once", EXACT),
        subject=mechanism,
        covers=("row-noise",),
        quick_trials=MANY,
    )
    halved = replace(mechanism, noise_stds=tuple(std / 2 for std in mechanism.noise_stds))
    bare = gaussian_rows(mechanism.noise_stds[0])
    return [
        sound,
        replace(sound, fault="noise halved", release=rows_of(halved)),
        replace(sound, fault="no clip", release=bare),
    ]


def rpfl_cases() -> list[Case]:
    """RPFL's rows, with the neighbours of `row_cases`; and the epsilon that its Theorem 1 states.

    The theorem leaves a constant open, which is 1 here. The audit refutes its epsilon for the noised rows; it
    says nothing of models that are learned from them.
    """
    mechanism, redrawn = rpfl("once"), rpfl("each-round")
    sound = Case(
        mechanism="rpfl",
        release=rows_of(mechanism),
        pair=lengthen(opposite_pair(2), _FAR),
        claim=proved_claim(mechanism.guarantee, "the noised rows, published once", EXACT),
        subject=mechanism,
        covers=("rpfl",),
        quick_trials=MANY,
    )
    wrong = replace(
        sound,
        mechanism="rpfl, as stated",
        claim=stated_claim(mechanism.guarantee, "the noised rows, published once"),
        covers=(),
        wanted=Standing.REFUTED,
    )
    again = replace(
        sound,
        mechanism="rpfl, redrawn",
        release=rows_of(redrawn),
        claim=proved_claim(redrawn.guarantee, "the noised rows of a run of one round, published once", EXACT),
        subject=redrawn,
    )
    halved = replace(redrawn, noise_stds=tuple(std / 2 for std in redrawn.noise_stds))
    return [sound, wrong, again, replace(again, fault="noise halved", release=rows_of(halved))]


def rpfl(draw: str) -> Rpfl:
    """Return RPFL of one round. `draw`: "once" or "each-round", when it draws its noise."""
    return rpfl_of(
        federation=Federation((ROWS,), 1, (2, 1)),
        clients_per_round=1,
        widths=[2, 1],
        epsilon=1.0,
        caps=[10.0],
        delta=DELTA,
        row_norm=RADIUS,
        theorem={"lipschitz": 1.0, "steps": 10, "convexity": 0.01, "constant": 1.0},
        gamma=0.05,
        weight=0.1,
        draw=draw,
    )
