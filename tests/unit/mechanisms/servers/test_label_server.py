"""A server whose clients noise their labels once: their training data, its guarantee, and what it refuses."""

import math

import numpy as np
import pytest

from mechanisms.accounting.ledger import Ledger, Pure, Relation, privacy_spent
from mechanisms.registry import SERVER_MECHANISMS
from mechanisms.servers.label_server import LabelsOnce
from mechanisms.servers.server import Federation, ServerMechanism
from tests.unit.mechanisms.settings import words

FEDERATION = Federation((5,) * 6, 3, (4, 2))


def made(epsilon: object = 2.0, classes: object = 10, chosen: int = 4) -> LabelsOnce:
    return LabelsOnce(FEDERATION, chosen, classes, epsilon)  # type: ignore[arg-type]


def test_it_is_registered_says_whom_it_protects_and_samples_as_many_as_it_is_told() -> None:
    given = {"clients_per_round": 4, "classes": 10, "epsilon": 2.0}
    mechanism: ServerMechanism = SERVER_MECHANISMS["label-dp"](FEDERATION, **given)
    assert mechanism == made()
    assert (mechanism.name, mechanism.withstands) == ("label-dp", None)
    assert "features are used as they are" in mechanism.protects
    assert len(made(chosen=3).sample(6, np.random.default_rng(0))) == 3


def test_features_stay_and_labels_are_noised_as_often_as_it_says() -> None:
    """Kept with e^eps / (k - 1 + e^eps), each other class alike: four standard errors of 60,000 draws."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((60_000, 2)).astype(np.float32), rng.integers(0, 10, 60_000)
    before = y.copy()
    new_x, noisy = made(2.0).examples(x, y, 0, words())
    kept = math.exp(2) / (9 + math.exp(2))
    assert new_x is x
    assert noisy.dtype == np.int64
    assert noisy.shape == y.shape
    np.testing.assert_array_equal(y, before)
    assert (noisy == y).mean() == pytest.approx(kept, abs=4 * math.sqrt(kept * (1 - kept) / len(y)))
    moved = np.bincount((noisy - y) % 10, minlength=10)[1:] / len(y)
    assert moved == pytest.approx(np.full(9, (1 - kept) / 9), abs=4 * math.sqrt(0.06 / len(y)))
    assert made(2.0).figures == {"labels kept": pytest.approx(kept)}


def test_a_large_epsilon_leaves_labels_as_they_are_and_other_words_give_other_labels() -> None:
    x, y = np.zeros((50, 1), np.float32), np.arange(50) % 2
    np.testing.assert_array_equal(made(100, classes=2).examples(x, y, 0, words())[1], y)
    once, again, other = (made(1.0, classes=2).examples(x, y, 0, words(seed))[1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_one_draw_is_charged_however_many_the_rounds() -> None:
    guarantee = made(2.0).guarantee
    assert (guarantee.epsilon, guarantee.stated, guarantee.delta) == (2.0, 2.0, 0.0)
    assert guarantee.unit.relation is Relation.REPLACE
    assert "label" in guarantee.unit.what
    assert "features" in guarantee.outside
    for rounds in (1, 50):
        assert made(2.0).events(rounds) == (Pure(2.0),)
    assert privacy_spent(Ledger.of(made(2.0).events(50)), 1e-12).epsilon == pytest.approx(2.0, rel=1e-6)
    assert made(500).guarantee.epsilon == 100.0
    with pytest.raises(ValueError, match="rounds"):
        made().events(0)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_refused(label: int) -> None:
    x, y = np.zeros((2, 1), np.float32), np.array([0, label])
    with pytest.raises(ValueError, match=f"labels hold {label}; allowed: 0 to 2"):
        made(classes=3).examples(x, y, 0, words())


@pytest.mark.parametrize(("name", "value"), [("classes", 2.5), ("epsilon", "1")])
def test_what_is_no_number_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=name):
        made(**{name: value})
