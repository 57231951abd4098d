"""A server with a robust aggregator: how it combines uploads, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.noise.randomness import SeededWords
from mechanisms.servers import robust
from mechanisms.servers.robust_server import AGGREGATORS, Robust, breakdown_point
from mechanisms.servers.server import Federation, ServerMechanism
from tests.unit.mechanisms.settings import combined, uploads_of

FEDERATION = Federation((5,) * 11, 3, (4, 2))
MODEL = np.arange(6, dtype=np.float32)
PARAMETERS: dict[str, dict[str, object]] = {
    "norm-bound": {"norm_bound": 2.0},
    "weak-dp": {"norm_bound": 2.0, "noise_std": 0.1},
    "trimmed-mean": {"trimmed": 2},
    "krum": {"attackers": 4},
    "multi-krum": {"attackers": 4, "chosen": 5},
    "bulyan": {"attackers": 2},
    "centred-clipping": {"radius": 2.0},
    "group-median": {"groups": 3},
}


def made(name: str) -> Robust:
    return Robust(FEDERATION, 11, name, PARAMETERS.get(name, {}))


def words() -> SeededWords:
    return SeededWords(np.random.default_rng(0))


def uploads() -> list[np.ndarray]:
    return list(MODEL + np.random.default_rng(1).standard_normal((11, 6)).astype(np.float32))


@pytest.mark.parametrize("name", AGGREGATORS)
def test_the_model_moves_by_the_aggregate_of_the_updates(name: str) -> None:
    mechanism: ServerMechanism = made(name)
    updates = (np.stack(uploads()).astype(np.float64) - MODEL).astype(np.float32)
    zero = np.zeros(6, np.float32)
    expected = AGGREGATORS[name](updates, zero, words(), **PARAMETERS.get(name, {}))
    sent = uploads_of(uploads(), [5] * 11)
    found, state = mechanism.combine(MODEL, mechanism.start(), sent, words())
    assert (state is None) == (name != "centred-clipping")
    np.testing.assert_allclose(found, MODEL + expected, atol=1e-6)
    assert found.dtype == np.float32
    assert mechanism.name == name
    assert mechanism.guarantee is None
    assert "without noise" in mechanism.protects


def test_names_stand_for_what_they_say() -> None:
    updates = np.stack(uploads())
    np.testing.assert_array_equal(
        AGGREGATORS["krum"](updates, None, words(), attackers=4), robust.krum(updates, 4)
    )
    np.testing.assert_array_equal(
        AGGREGATORS["weak-dp"](updates, None, words(), norm_bound=2.0, noise_std=0.1),
        robust.weak_dp(updates, 2.0, 0.1, words()),
    )
    np.testing.assert_array_equal(
        AGGREGATORS["centred-clipping"](updates, updates[0], words(), radius=2.0, steps=3),
        robust.centred_clipping(updates, updates[0], 2.0, 3),
    )


def clipped_around(centre: np.ndarray, updates: np.ndarray, radius: float) -> np.ndarray:
    """Karimireddy, He & Jaggi 2021, (3), as written down."""
    away = updates.astype(np.float64) - centre
    factors = np.minimum(1, radius / np.linalg.norm(away, axis=1))
    return centre + (factors[:, None] * away).mean(axis=0)


def test_centred_clipping_is_around_the_last_aggregate() -> None:
    """By hand over three rounds, of which the second has no upload that counts."""
    mechanism, rng = made("centred-clipping"), np.random.default_rng(2)
    updates = [rng.normal(3, 1, (11, 6)) for _ in range(2)]
    model, state = MODEL, mechanism.start()
    np.testing.assert_array_equal(state, np.zeros(6))
    model, state = mechanism.combine(
        model, state, uploads_of(sent_from(model, updates[0]), [5] * 11), words()
    )
    first = clipped_around(np.zeros(6), updates[0], 2.0)
    np.testing.assert_allclose(state, first, atol=1e-5)
    lost = uploads_of([np.full(6, np.inf, np.float32)], [5])
    for nobody in ([], lost):
        again, kept = mechanism.combine(model, state, nobody, words())
        assert again is model
        assert kept is state
    later, state = mechanism.combine(
        model, state, uploads_of(sent_from(model, updates[1]), [5] * 11), words()
    )
    second = clipped_around(first, updates[1], 2.0)
    np.testing.assert_allclose(state, second, atol=1e-5)
    np.testing.assert_allclose(later, model + second, atol=1e-5)
    assert np.linalg.norm(second) > 3, "around zero it would stay within the radius of 2"


def sent_from(model: np.ndarray, updates: np.ndarray) -> list[np.ndarray]:
    return list((model + updates).astype(np.float32))


def test_liars_that_agree_move_it_less_once_it_knows_where_the_honest_go() -> None:
    """History helps: a lie from afar counts for the radius, and honest updates for all they are."""
    mechanism, rng = made("centred-clipping"), np.random.default_rng(3)
    model, state, errors = MODEL, mechanism.start(), []
    for _ in range(8):
        updates = rng.normal(3, 0.1, (11, 6))
        updates[8:] = -50
        model, state = mechanism.combine(
            model, state, uploads_of(sent_from(model, updates), [5] * 11), words()
        )
        errors.append(float(np.linalg.norm(state - 3)))
    assert errors[-1] < 1 < 5 < errors[0]


def test_stated_rows_do_not_count() -> None:
    found = combined(made("coordinate-median"), MODEL, uploads(), [1] * 10 + [1000])
    np.testing.assert_array_equal(found, combined(made("coordinate-median"), MODEL, uploads(), [5] * 11))


def test_who_sends_no_numbers_is_left_out() -> None:
    sent = uploads()
    sent[3] = np.full(6, np.nan, np.float32)
    others = sent[:3] + sent[4:]
    mechanism = made("coordinate-median")
    np.testing.assert_array_equal(
        combined(mechanism, MODEL, sent, [5] * 11), combined(mechanism, MODEL, others, [5] * 10)
    )
    assert combined(mechanism, MODEL, [sent[3]], [5]) is MODEL
    assert combined(mechanism, MODEL, [], []) is MODEL


def test_a_sample_of_the_clients() -> None:
    mechanism = Robust(FEDERATION, 4, "coordinate-median", {})
    assert len(set(mechanism.sample(11, np.random.default_rng(0)).tolist())) == 4


@pytest.mark.parametrize(
    ("clients", "name", "parameters", "error", "message"),
    [
        (11, "mode", {}, ValueError, "aggregator = 'mode' is not allowed: 'norm-bound', 'weak-dp'"),
        (11, "krum", {"attackers": 5}, ValueError, "attackers = 5 is not allowed: 0 to 4"),
        (10, "bulyan", {"attackers": 2}, ValueError, "attackers = 2 is not allowed: 0 to 1"),
        (11, "trimmed-mean", {}, TypeError, "trimmed"),
        (8, "group-median", {"groups": 3}, ValueError, "groups = 3 is not allowed: none, of 8 members"),
        (12, "coordinate-median", {}, ValueError, "clients_per_round = 12"),
        (11, "weak-dp", {"norm_bound": 1.0, "noise_std": 0.0}, ValueError, "noise_std"),
    ],
)
def test_what_can_not_be_is_refused_before_the_first_round(clients, name, parameters, error, message) -> None:
    with pytest.raises(error, match=message):
        Robust(FEDERATION, clients, name, parameters)


@pytest.mark.parametrize(
    ("name", "withstands"),
    [
        ("norm-bound", None),
        ("weak-dp", None),
        ("centred-clipping", None),
        ("coordinate-median", 5),
        ("geometric-median", 5),
        ("trimmed-mean", 2),
        ("krum", 4),
        ("multi-krum", 4),
        ("bulyan", 2),
        ("group-median", 1),
    ],
)
def test_how_many_lying_clients_it_withstands(name: str, withstands: int | None) -> None:
    assert made(name).withstands == withstands


@pytest.mark.parametrize("name", ["coordinate-median", "geometric-median"])
@pytest.mark.parametrize(("clients", "withstands"), [(1, 0), (2, 0), (10, 4), (11, 5)])
def test_a_median_withstands_less_than_half(name: str, clients: int, withstands: int) -> None:
    assert breakdown_point(name, clients, {}) == withstands
