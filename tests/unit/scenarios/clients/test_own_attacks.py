"""A user's own attack and aggregator: what they are given, what they change, and what is refused."""

import numpy as np
import pytest

from mechanisms.noise.randomness import SeededWords
from mechanisms.servers.server import Federation, Upload
from node.system.errors import ConfigError
from scenarios.clients.aggregators import Aggregated, aggregated_by
from scenarios.clients.attacks import OwnAttack, own_attackers

RNG = np.random.default_rng(0)
START, WEIGHTS = np.zeros(3, np.float32), np.array([1, 2, 3], np.float32)
X, Y = np.ones((2, 4), np.float32), np.array([1, 2])
FEDERATION = Federation((5, 5, 5), 2, (3,))
WORDS = SeededWords(RNG)


def path(name: str) -> str:
    return f"tests.own_attacks:{name}"


@pytest.mark.parametrize(
    ("name", "poisons", "forges"), [("Forger", False, True), ("Poisoner", True, False), ("Both", True, True)]
)
def test_a_class_attacks_by_what_it_has(name, poisons, forges):
    attackers = own_attackers(path(name), {}, 0.5)
    assert attackers.of == 0.5
    assert attackers.forged(WEIGHTS, START, RNG).tolist() == ([-1, -2, -3] if forges else [1, 2, 3])
    assert attackers.poisoned(X, Y, RNG)[1].tolist() == ([0, 0] if poisons else [1, 2])


def test_an_attack_has_its_parameters_and_a_name_and_what_it_returns_is_checked():
    attack = OwnAttack(path("Forger"), {"factor": 2.0})
    assert attack.weights(WEIGHTS, START, RNG).tolist() == [-2, -4, -6]
    assert attack.name == "Forger"
    attack = OwnAttack(path("Misshapen"))
    with pytest.raises(
        ValueError, match=r"returns weights of shape \(1,\) and type float32; allowed: \(3,\)"
    ):
        attack.weights(WEIGHTS, START, RNG)
    with pytest.raises(ValueError, match=r"returns labels of shape .* and type float64; allowed: .* int64"):
        attack.rows(X, Y, RNG)


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("Nobody", {}, "cannot be imported"),
        ("first", {}, "is not a class"),
        ("Forger", {"strength": 1}, "strength"),
        ("NO_FUNCTION", {}, "is not a class"),
    ],
)
def test_an_attack_that_can_not_be_made_is_one_line(name, parameters, said):
    with pytest.raises(ConfigError, match=said):
        own_attackers(path(name), parameters, 0.5)


def test_an_aggregator_takes_the_place_of_the_mean():
    choice = aggregated_by(path("first"), {"scale": 2.0}, 2)
    server = choice.make(FEDERATION)
    assert isinstance(server, Aggregated)
    uploads = [Upload(0, 1, START + 1), Upload(1, 1, START + 5)]
    moved, state = server.combine(START, None, uploads, WORDS)
    assert (moved.tolist(), state) == ([2, 2, 2], None)
    lost = Upload(2, 1, np.full(3, np.nan, np.float32))
    assert server.combine(START + 1, None, [lost, *uploads], WORDS)[0].tolist() == [1, 1, 1]
    assert server.combine(START, None, [lost], WORDS)[0] is START
    assert server.combine(START, None, [], WORDS)[0] is START
    assert len(server.sample(3, RNG)) == 2
    assert len(aggregated_by(path("first"), {}).make(FEDERATION).sample(3, RNG)) == 3
    assert (server.name, server.withstands) == ("first", None)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (aggregated_by("no.where:first", {}), "cannot be imported"),
        (aggregated_by(path("NO_FUNCTION"), {}), "is no function"),
        (aggregated_by(path("wide"), {}), r"returns shape \(3, 2\) for updates of shape \(3, 2\)"),
        (aggregated_by(path("first"), {"scael": 2}), "scael"),
        (aggregated_by(path("first"), {}, 4), "clients_per_round = 4"),
        (aggregated_by("mechanisms.servers.robust:krum", {"attackers": 1}), "attackers = 1 is not allowed"),
    ],
)
def test_an_aggregator_that_can_not_be_is_one_line(choice, said):
    with pytest.raises(ConfigError, match=said) as raised:
        choice.make(FEDERATION)
    assert "\n" not in str(raised.value)
