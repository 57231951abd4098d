"""What is special about scenario `dp-fedavg`: what noise costs, the book, and real training."""

import math
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from mechanisms.accounting import renyi
from mechanisms.servers.server import Federation
from node.task.sections import ModelSection
from scenarios.clients.choices import Clients, Rows
from scenarios.data import sources
from scenarios.engines.room import LocalRoom
from scenarios.federated.cell import FederatedCell
from scenarios.study.threads import one_thread
from scenarios.systems.dp_fedavg.arms import ARMS, CLIPS, NOISE, SAMPLED, USERS, own
from scenarios.systems.dp_fedavg.charts import OVER_CLIP, OVER_EPSILON, OVER_NOISE, OVER_USERS
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["dp-fedavg"]
BY_NAME = {arm.arm: arm.cell for arm in ARMS}
BOOK, BOOK_WITHOUT_NOISE, TEN_USERS = "book", "book-no-noise", "ten-users-private"


def noise_arm(users: int, z: float) -> str:
    return f"users{users}-z{z:g}"


def clip_arm(clip: float, z: float) -> str:
    return noise_arm(300, z) if clip == 0.5 else f"clip{clip:g}-z{z:g}"


def estimator_arm(estimator: str, per_layer: bool) -> str:
    usual = (estimator, per_layer) == ("fixed", False)
    return noise_arm(300, 1.0) if usual else f"{estimator}-{'layers' if per_layer else 'flat'}"


USUAL = noise_arm(300, 1.0)


def test_arms_differ_in_what_they_are_named_for_only():
    """So that a difference in accuracy is one of the mechanism, or of the number of users."""
    usual = BY_NAME[USUAL]
    for cell in BY_NAME.values():
        if cell.arm in (BOOK, BOOK_WITHOUT_NOISE, TEN_USERS):
            assert (cell.model, cell.rows.dataset) == (usual.model, usual.rows.dataset)
            assert (cell.train, cell.rows) == (BY_NAME[BOOK].train, BY_NAME[BOOK].rows)
            continue
        assert (cell.model, cell.train) == (usual.model, usual.train)
        assert cell.mechanism.parameters["sampling_probability"] == SAMPLED
        assert cell.rows.most == 60 * cell.clients.count
        changed = {
            name
            for name, value in cell.mechanism.parameters.items()
            if value != usual.mechanism.parameters[name]
        }
        assert changed <= {"noise_multiplier"} or cell.clients.count == 300


@pytest.mark.parametrize(("users", "per_round"), [(100, 10), (300, 30), (1000, 100)])
def test_noise_on_the_mean_shrinks_with_the_users(users, per_round):
    """z S / (q W) = 1 * 0.5 / (0.1 * users), all users having weight 1."""
    assert SYSTEM.facts[noise_arm(users, 1.0)]["noise std"] == pytest.approx(0.5 / per_round)


def test_the_clipped_denominator_has_twice_the_noise():
    std = {arm: SYSTEM.facts[arm]["noise std"] for arm in (USUAL, estimator_arm("clipped", False))}
    assert std[estimator_arm("clipped", False)] == pytest.approx(2 * std[USUAL])
    assert SYSTEM.facts[estimator_arm("fixed", True)]["clip radius"] == pytest.approx(0.5)


def test_epsilon_follows_from_noise_and_not_from_users_or_clip():
    same = [arm for arm, cell in BY_NAME.items() if cell.mechanism.parameters.get("noise_multiplier") == 1.0]
    assert len(same) == 3 + 4 + 3
    assert len({SYSTEM.facts[arm]["epsilon"] for arm in same}) == 1


@pytest.mark.parametrize("arm", [noise_arm(300, z) for z in NOISE[1:]] + [TEN_USERS])
def test_another_accountant_agrees(arm):
    """Renyi's bound is looser; by much where there is little noise."""
    cell = BY_NAME[arm]
    z, q = (cell.mechanism.parameters[name] for name in ("noise_multiplier", "sampling_probability"))
    looser = renyi.epsilon(cell.rounds * renyi.sampled(z, q), 1e-5)
    assert looser / (1.6 if z > 0.25 else 5) < SYSTEM.facts[arm]["epsilon"] < looser


def test_the_book_s_settings_are_verbatim():
    book = BY_NAME[BOOK]
    assert (book.clients.count, book.rounds) == (10, 100)
    train = asdict(book.train)
    assert (train["epochs"], train["batch_size"]) == (3, 32)
    assert (train["learning_rate"], train["momentum"]) == (0.01, 1e-4)
    parameters = {"clients_per_round": 2, "scale": 0.5, "clip_radius": 1000.0, "noise_std": 0.001}
    assert book.mechanism.parameters == {**parameters, "delta": 1e-5}
    quiet = BY_NAME[BOOK_WITHOUT_NOISE]
    assert replace(quiet, arm=BOOK, mechanism=book.mechanism) == book


def test_the_book_s_epsilon_is_astronomical_and_ten_users_can_have_eight():
    assert SYSTEM.facts[BOOK]["noise multiplier"] == pytest.approx(2e-6)
    assert SYSTEM.facts[BOOK]["epsilon"] == pytest.approx(1.25e13, rel=1e-3)
    assert SYSTEM.facts[BOOK]["stated"] is None
    assert 7 < SYSTEM.facts[TEN_USERS]["epsilon"] <= 8


def test_a_mechanism_of_one_s_own_gets_the_usual_users():
    cell = own("tests.own_mechanisms:Shrinking", {"clients_per_round": 3})
    assert (cell.arm, cell.clients, cell.train) == ("own", BY_NAME[USUAL].clients, BY_NAME[USUAL].train)
    assert cell.mechanism.make(Federation((60,) * 300, cell.rounds, (25_450,))).name == "fedavg", (
        "which it is, but for its uploads"
    )


def test_noise_has_its_place_and_its_epsilon_on_the_axis():
    chart = OVER_NOISE.chart(SYSTEM.sweep())
    ticks = chart.layout["xaxis"]["categoryarray"]
    assert chart.traces[1]["x"] == ticks
    assert chart.traces[0]["x"] == [ticks[0], ticks[3], ticks[5]]
    assert len(ticks) == len(NOISE)
    assert ticks[0] == "0<br>ε ∞"
    assert ticks[3] == "1<br>ε 4.7"
    assert OVER_CLIP.chart(SYSTEM.sweep()).layout["xaxis"]["tickvals"] == list(CLIPS)
    assert OVER_USERS.chart(SYSTEM.sweep()).layout["xaxis"]["tickvals"] == list(USERS)
    of_50 = SYSTEM.sweep()
    of_50 = replace(of_50, arms=tuple(arm.among(50) for arm in of_50.arms))
    assert OVER_NOISE.chart(of_50).traces[0]["name"] == "50 users"


def test_over_epsilon_the_least_comes_first_and_no_noise_is_a_level():
    chart = OVER_EPSILON.chart(SYSTEM.sweep())
    *lines, level = chart.traces
    for line in lines:
        assert line["x"] == sorted(line["x"])
        assert np.isfinite(line["x"]).all()
    assert (level["name"], level["y"]) == ("no noise, 300 users", pytest.approx([0.9, 0.9]))
    assert (level["x"][0], level["x"][1]) == (min(lines[1]["x"]), max(lines[1]["x"]))
    assert all(len(line["x"]) == points for line, points in zip(lines, (2, 6, 2), strict=True))
    assert "delta 1e-05" in chart.caption


def on_digits(cell: FederatedCell) -> FederatedCell:
    """The same mechanism and training, 40 users of 30 rows each of what comes with scikit-learn."""
    small = ModelSection("node.models:MLP", {"sizes": [64, 16, 10]})
    parameters = {**cell.mechanism.parameters, "sampling_probability": 0.25, "weight_cap": 30.0}
    mechanism = replace(cell.mechanism, parameters=parameters)
    return replace(
        cell, rows=Rows("digits", 1200), clients=Clients("iid", 40), model=small, mechanism=mechanism
    )


def last_figure(cell: FederatedCell, room: LocalRoom) -> float:
    with one_thread():
        return cell.replay(room).final


def test_noise_drowns_what_ten_of_forty_users_learn():
    room = LocalRoom(Path(), 1, lambda number, figure: None)
    cells = {z: on_digits(BY_NAME[noise_arm(300, z)]).lasting(20) for z in (0.0, 1.0, 8.0)}
    quiet, noised, drowned = (last_figure(cells[z], room) for z in (0.0, 1.0, 8.0))
    assert quiet > 0.75
    assert quiet > noised + 0.05 > drowned + 0.2


@pytest.mark.skipif(sources.VARIABLE not in os.environ, reason="needs MNIST")
def test_on_mnist_users_buy_accuracy_and_the_book_has_no_privacy():
    room = LocalRoom(Path(os.environ[sources.VARIABLE]), 1, lambda number, figure: None)
    few, many = (last_figure(BY_NAME[noise_arm(users, 1.0)].lasting(5), room) for users in (100, 1000))
    assert many > few + 0.05
    with one_thread():
        book = BY_NAME[BOOK].lasting(3).replay(room)
    assert math.isclose(book.facts["epsilon"], 3 / 2 / 2e-6**2, rel_tol=1e-3)
    assert book.final > 0.4
