"""A server with a robust aggregator: how it combines uploads, and what it refuses."""

import numpy as np
import pytest

from mechanisms.servers import robust
from mechanisms.servers.robust_server import AGGREGATORS, Robust, breakdown_point
from mechanisms.servers.server import Federation, ServerMechanism, Upload
from tests.unit.mechanisms.settings import combined, uploads_of, words

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
    krum = AGGREGATORS["krum"](updates, None, words(), attackers=4)
    np.testing.assert_array_equal(krum, robust.krum(updates, 4))
    weak = AGGREGATORS["weak-dp"](updates, None, words(), norm_bound=2.0, noise_std=0.1)
    np.testing.assert_array_equal(weak, robust.weak_dp(updates, 2.0, 0.1, words()))
    centred = AGGREGATORS["centred-clipping"](updates, updates[0], words(), radius=2.0, steps=3)
    np.testing.assert_array_equal(centred, robust.centred_clipping(updates, updates[0], 2.0, 3))


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
    model, state = mechanism.combine(model, state, sent_from(model, updates[0]), words())
    first = clipped_around(np.zeros(6), updates[0], 2.0)
    np.testing.assert_allclose(state, first, atol=1e-5)
    lost = uploads_of([np.full(6, np.inf, np.float32)], [5])
    for nobody in ([], lost):
        again, kept = mechanism.combine(model, state, nobody, words())
        assert again is model
        assert kept is state
    later, state = mechanism.combine(model, state, sent_from(model, updates[1]), words())
    second = clipped_around(first, updates[1], 2.0)
    np.testing.assert_allclose(state, second, atol=1e-5)
    np.testing.assert_allclose(later, model + second, atol=1e-5)
    assert np.linalg.norm(second) > 3, "around zero it would stay within the radius of 2"


def sent_from(model: np.ndarray, updates: np.ndarray) -> list[Upload]:
    return uploads_of(list((model + updates).astype(np.float32)), [5] * len(updates))


def test_liars_that_agree_move_it_less_once_it_knows_where_the_honest_go() -> None:
    """History helps: a lie from afar counts for the radius, and honest updates for all they are."""
    mechanism, rng = made("centred-clipping"), np.random.default_rng(3)
    model, state, errors = MODEL, mechanism.start(), []
    for _ in range(8):
        updates = rng.normal(3, 0.1, (11, 6))
        updates[8:] = -50
        model, state = mechanism.combine(model, state, sent_from(model, updates), words())
        errors.append(float(np.linalg.norm(state - 3)))
    assert errors[-1] < 1 < 5 < errors[0]


def test_stated_rows_do_not_count_and_who_sends_no_numbers_is_left_out() -> None:
    mechanism, sent = made("coordinate-median"), uploads()
    found = combined(mechanism, MODEL, sent, [1] * 10 + [1000])
    np.testing.assert_array_equal(found, combined(mechanism, MODEL, sent, [5] * 11))
    others = sent[:3] + sent[4:]
    sent[3] = np.full(6, np.nan, np.float32)
    without = combined(mechanism, MODEL, others, [5] * 10)
    np.testing.assert_array_equal(combined(mechanism, MODEL, sent, [5] * 11), without)
    assert combined(mechanism, MODEL, [sent[3]], [5]) is MODEL
    assert combined(mechanism, MODEL, [], []) is MODEL
    few = Robust(FEDERATION, 4, "coordinate-median", {})
    assert len(set(few.sample(11, np.random.default_rng(0)).tolist())) == 4


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


WITHSTANDS = {"coordinate-median": 5, "geometric-median": 5, "trimmed-mean": 2, "krum": 4, "multi-krum": 4}
WITHSTANDS |= {"bulyan": 2, "group-median": 1}


@pytest.mark.parametrize("name", AGGREGATORS)
def test_how_many_lying_clients_it_withstands(name: str) -> None:
    assert made(name).withstands == WITHSTANDS.get(name)
    if name in ("coordinate-median", "geometric-median"):
        assert [breakdown_point(name, clients, {}) for clients in (1, 2, 10, 11)] == [0, 0, 4, 5]
