"""What is special about scenario `dp-fedavg`: what noise costs, the book, and real training."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from mechanisms.servers.server import Federation
from scenarios.systems.dp_fedavg.arms import ARMS, CLIPS, NOISE, SAMPLED, USERS, own
from scenarios.systems.dp_fedavg.charts import OVER_CLIP, OVER_EPSILON, OVER_NOISE, OVER_USERS
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["dp-fedavg"]
BY_NAME = {arm.arm: arm.cell for arm in ARMS}
BOOK, BOOK_WITHOUT_NOISE, TEN_USERS = "book", "book-no-noise", "ten-users-private"


def noise_arm(users: int, z: float) -> str:
    return f"users{users}-z{z:g}"


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


def test_the_book_s_settings_are_verbatim_and_its_epsilon_astronomical():
    book = BY_NAME[BOOK]
    assert (book.clients.count, book.rounds) == (10, 100)
    train = asdict(book.train)
    assert (train["epochs"], train["batch_size"]) == (3, 32)
    assert (train["learning_rate"], train["momentum"]) == (0.01, 1e-4)
    parameters = {"clients_per_round": 2, "scale": 0.5, "clip_radius": 1000.0, "noise_std": 0.001}
    assert book.mechanism.parameters == {**parameters, "delta": 1e-5}
    quiet = BY_NAME[BOOK_WITHOUT_NOISE]
    assert replace(quiet, arm=BOOK, mechanism=book.mechanism) == book
    assert SYSTEM.facts[BOOK]["noise multiplier"] == pytest.approx(2e-6)
    assert SYSTEM.facts[BOOK]["epsilon"] == pytest.approx(1.25e13, rel=1e-3)
    assert SYSTEM.facts[BOOK]["stated"] is None
    assert 7 < SYSTEM.facts[TEN_USERS]["epsilon"] <= 8
    same = [arm for arm, cell in BY_NAME.items() if cell.mechanism.parameters.get("noise_multiplier") == 1.0]
    assert len(same) == 3 + 4 + 3
    assert len({SYSTEM.facts[arm]["epsilon"] for arm in same}) == 1


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
