"""The server's hooks: the plain ones, sampling, weighted means, and a round as an engine runs it."""

import inspect
import math

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, privacy_spent
from mechanisms.registry import SERVER_MECHANISMS
from mechanisms.servers.server import (
    NO_NOISE,
    FedAvg,
    Federation,
    ServerMechanism,
    Step,
    Trained,
    Upload,
    fixed_sample,
    mean_of,
    poisson_sample,
    weighted_mean,
)
from tests.unit.mechanisms.settings import refused, vector, words

STEP = Step(np.array([0, 2]), 0.1)
RNG = np.random.default_rng(0)


def federation(**values) -> Federation:
    return Federation(**{"rows": (10, 20, 30, 40), "rounds": 5, "sizes": (2, 1), **values})


def a_round(mechanism: ServerMechanism, model, target, rng):
    """Runs a round of clients that each step halfway to `target`, through the protocol alone."""
    rows, state = federation().rows, mechanism.start()
    chosen, told = mechanism.sample(len(rows), rng), mechanism.told(state)
    start = mechanism.broadcast(model, words())
    weights = torch.from_numpy(np.stack([(start + target) / 2 for _ in chosen]))
    kept = np.zeros((len(chosen), mechanism.client_memory), np.float32)
    after = mechanism.after_batch(weights, torch.from_numpy(start), Step(chosen, 0.1, told, kept)).numpy()
    uploads = []
    for client, own, memory in zip(chosen, after, kept, strict=True):
        ended = Trained(client, own, start, rows[client], 3, 0.1, told, memory)
        sent = mechanism.send(ended, words(client))
        assert (sent.vector.shape, sent.kept.shape) == ((len(start) + len(told),), memory.shape)
        uploads.append(Upload(client, rows[client], sent.vector))
    return mechanism.combine(start, state, uploads, words())[0]


def test_a_round_of_plain_averaging():
    new = a_round(FedAvg(federation(), 3), vector(0, 0, 0), vector(2, 4, 6), np.random.default_rng(0))
    assert new == pytest.approx([1, 2, 3])
    assert new.dtype == np.float32


PLAIN_VALUES = {
    "fedavg": {"clients_per_round": 2},
    "fedavgm": {"clients_per_round": 2},
    "fedadam": {"clients_per_round": 2, "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 0.01},
    "fedyogi": {"clients_per_round": 2, "learning_rate": 0.1},
    "fedprox": {"clients_per_round": 2, "proximal": 0.1},
    "scaffold": {"clients_per_round": 2, "learning_rate": 1.0},
    "dp-fedavg-adaptive": {"sampling_probability": 0.5, "noise_multiplier": 0.1, "delta": 1e-5},
    "nbafl": {
        "clients_per_round": 2, "epsilon": 50.0, "delta": 0.01, "clip": 5.0, "exposures": 1, "proximal": 0.01,
        "grad_clip": None,
    },
    "nbafl-federatedscope": {
        "clients_per_round": 2, "epsilon": 50.0, "constant": 1.0, "clip": 5.0, "proximal": 0.01,
        "grad_clip": 5.0, "sizes_joined": True,
    },
    "dp-fedavg": {
        "sampling_probability": 0.5, "noise_multiplier": 1.0, "clip": 1.0, "per_layer": True,
        "estimator": "clipped", "weight_cap": 20.0, "delta": 1e-5,
    },
    "dp-fedavg-book": {
        "clients_per_round": 2, "scale": 0.5, "clip_radius": 1000.0, "noise_std": 0.001, "delta": 1e-5,
    },
    "dp-fedavg-within": {
        "epsilon": 8.0, "sampling_probability": 0.5, "clip": 1.0, "per_layer": False, "estimator": "fixed",
        "weight_cap": 20.0, "delta": 1e-5,
    },
    "label-dp": {"clients_per_round": 2, "classes": 3, "epsilon": 1.0},
    "row-noise": {"clients_per_round": 2, "epsilon": 3.0, "delta": 1e-5, "row_norm": 1.0},
    "rpfl": {
        "clients_per_round": 2, "widths": [2, 1], "epsilon": 1.0, "caps": [2.0], "delta": 1e-5,
        "row_norm": 1.0, "theorem": {"lipschitz": 1.0, "steps": 10, "convexity": 0.01, "constant": 1.0},
        "gamma": 0.05, "weight": 0.01,
    },
}  # fmt: skip
"""As a scenario, a file or the command line gives them."""


def built_in() -> list[ServerMechanism]:
    return [SERVER_MECHANISMS[name](federation(), **values) for name, values in PLAIN_VALUES.items()]


def test_every_name_is_tried():
    assert set(SERVER_MECHANISMS) == set(PLAIN_VALUES)


@pytest.mark.parametrize(("name", "mechanism"), list(zip(PLAIN_VALUES, built_in(), strict=True)))
def test_every_mechanism_has_its_name_and_goes_through_the_same_round(name, mechanism):
    """With the same seeds it gives the same figures, and leaves its arguments unchanged."""
    assert mechanism.name == name.removesuffix("-within"), "the same one, its noise found for a budget"
    model, target = vector(0, 0, 0), vector(2, 4, 6)
    first, again = (a_round(mechanism, model, target, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, again)
    assert first.dtype == np.float32
    assert np.isfinite(first).all()
    assert not np.array_equal(first, model)
    assert (model.tolist(), target.tolist()) == ([0, 0, 0], [2, 4, 6])
    cost = privacy_spent(Ledger.of(mechanism.events(2)), 1e-5).epsilon
    assert np.isfinite(cost) == (mechanism.guarantee is not None)
    assert all(isinstance(value, float) for value in mechanism.figures.values())


NOT_ALLOWED = {
    "clients_per_round": 5, "learning_rate": 0.0, "momentum": 1.0, "beta1": -0.1, "beta2": 1.0, "tau": 0.0,
    "proximal": -0.1, "grad_clip": 0.0, "sampling_probability": 1.5, "noise_multiplier": -1.0, "delta": 1.0,
    "epsilon": -1.0, "constant": 0.0, "exposures": 0, "clip": -1.0, "estimator": "median", "weight_cap": 0.0,
    "scale": 0.0, "clip_radius": 0.0, "noise_std": 0.0, "classes": 1, "row_norm": 0.0, "weight": -0.1,
    "gamma": 1.0, "quantile": 1.0, "clip_learning_rate": 0.0, "start_clip": 0.0, "count_noise_std": -1.0,
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN_VALUES)
def test_what_no_mechanism_takes_is_refused_by_its_name(name):
    make = SERVER_MECHANISMS[name]
    taken = NOT_ALLOWED.keys() & inspect.signature(make).parameters.keys()
    assert taken
    refused(
        lambda **one: make(federation(), **{**PLAIN_VALUES[name], **one}),
        **{key: NOT_ALLOWED[key] for key in taken},
    )


def test_plain_averaging_changes_and_promises_nothing():
    plain = FedAvg(federation(), 2)
    model = vector(1, 2, 3)
    weights = torch.ones(2, 3)
    assert plain.broadcast(model, words()) is model
    assert plain.upload(model, vector(0, 0, 0), 10, words()) is model
    assert plain.after_batch(weights, torch.zeros(3), STEP) is weights
    new, state = plain.combine(model, "a state", [], words())
    assert new is model, "nobody came"
    assert (state, plain.start(), plain.client_memory) == ("a state", None, 0)
    assert plain.told(None).shape == (0,)
    assert plain.state_figures(None) == {}
    kept = vector(7)
    sent = plain.send(Trained(1, model, vector(0, 0, 0), 10, 3, 0.1, vector(), kept), words())
    assert sent.vector is model
    assert sent.kept is kept
    assert (plain.name, plain.guarantee, plain.proximal, plain.grad_clip) == ("fedavg", None, 0.0, None)
    assert "without noise" in plain.protects
    assert plain.events(3) == NO_NOISE
    assert plain.figures == {}
    assert len(plain.sample(4, RNG)) == 2
    assert plain.withstands is None
    x, y = np.ones((2, 3), np.float32), np.zeros(2, np.int64)
    assert plain.examples(x, y, 0, words()) == (x, y), "the very same"
    assert plain.examples_of_round(x, y, 0, words()) == (x, y), "in every round"
    assert math.isinf(privacy_spent(Ledger.of(plain.events(1)), 1e-5).epsilon), (
        "no noise is not nothing spent"
    )


def test_a_mean_is_weighted_by_rows_and_summed_in_doubles():
    mean = weighted_mean([vector(1, 0), vector(0, 4)], [30, 10])
    assert mean.tolist() == mean_of([Upload(3, 30, vector(1, 0)), Upload(0, 10, vector(0, 4))]).tolist()
    assert (mean.tolist(), mean.dtype) == ([0.75, 1.0], np.float32)
    many = [vector(1.0)] + [vector(2.0**-25)] * 2**10
    assert weighted_mean(many, [1] * len(many)) * len(many) == pytest.approx(1 + 2.0**-15, rel=1e-7)
    assert (federation().clients, federation().dimension) == (4, 3)


def test_a_fixed_sample_is_uniform_and_without_replacement():
    rng = np.random.default_rng(1)
    draws = [tuple(fixed_sample(5, 2, rng)) for _ in range(5000)]
    assert all(first < second for first, second in draws), "in order, no client twice"
    pairs, counts = np.unique(draws, axis=0, return_counts=True)
    assert len(pairs) == 10
    assert counts == pytest.approx(500, abs=5 * math.sqrt(500)), "5 standard errors"
    assert fixed_sample(3, 3, rng).tolist() == [0, 1, 2]
    assert fixed_sample(3, 2, rng).dtype == np.int64


def test_a_poisson_sample_takes_each_independently():
    rng = np.random.default_rng(2)
    taken = np.zeros((4000, 3))
    for row in taken:
        row[poisson_sample(3, 0.3, rng)] = 1
    assert taken.mean(axis=0) == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / 4000))
    empty = float((taken.sum(axis=1) == 0).mean())
    assert empty == pytest.approx(0.7**3, abs=0.04), "nobody at all, as often as independence has it"
    assert poisson_sample(3, 1.0, rng).tolist() == [0, 1, 2]
    assert poisson_sample(3, 1e-12, rng).dtype == np.int64


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: federation(rows=()), r"rows = \(\) is not allowed: one whole number of at least 1, or more"),
        (lambda: federation(rows=(3, 0)), "rows = 0 is not allowed"),
        (lambda: federation(sizes=()), r"sizes = \(\) is not allowed"),
        (lambda: federation(sizes=(0,)), "sizes = 0 is not allowed"),
        (lambda: federation(rounds=0), "rounds = 0 is not allowed"),
        (
            lambda: FedAvg(federation(), 5),
            "clients_per_round = 5 is not allowed: at most 4, the number of cl",
        ),
        (lambda: FedAvg(federation(), 0), "clients_per_round = 0 is not allowed"),
        (lambda: FedAvg(federation(), 2).events(0), "rounds = 0 is not allowed"),
        (lambda: fixed_sample(3, 4, RNG), "size = 4 is not allowed: at most 3, the number of clients"),
        (lambda: poisson_sample(3, 0.0, RNG), "sampling_probability = 0.0 is not allowed"),
        (lambda: weighted_mean([vector(1)], [1, 2]), "rows has 2 values for 1 uploads; allowed: one"),
        (lambda: weighted_mean([], []), "rows has 0 values for 0 uploads"),
        (
            lambda: weighted_mean([vector(1), vector(1, 2)], [1, 2]),
            r"uploads of shapes \[\(1,\), \(2,\)\] are",
        ),
        (lambda: weighted_mean([vector(1)], [0]), "rows = 0 is not allowed"),
    ],
)
def test_what_can_not_be(call, error):
    with pytest.raises(ValueError, match=error):
        call()
    with pytest.raises(TypeError, match=r"clients_per_round = 2\.0 is not allowed: a whole number"):
        FedAvg(federation(), 2.0)
