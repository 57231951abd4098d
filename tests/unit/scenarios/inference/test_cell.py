"""Cells of attacks: their results on small settings, what changes them, and what is refused."""

import json
import math
import pickle
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mechanisms.audits import membership
from node.system.errors import ConfigError
from node.task.sections import PrivacySection
from scenarios.data.dataset import FederatedDataset
from scenarios.engines.room import load
from scenarios.inference.inversion import FOUND, TRUTH, InversionCell, figures, guessed, scored
from scenarios.inference.membership import MembershipCell, attacked, ceiling
from scenarios.inference.property import COLUMNS, FEATURES, FEMALE, MALE, PropertyCell, without_sex
from scenarios.study.cells import Outcome
from scenarios.systems.attacks.arms import ARMS, Attack, own

EPSILON1 = "inversion-epsilon1"
BY_NAME: dict[str, Attack] = {arm.arm: arm.cell for arm in ARMS}


def census(rows: int, seed: int) -> FederatedDataset:
    """Makes rows with Adult's columns; women and men differ in one more column, incomes in another."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(rows, COLUMNS)).astype(np.float32), rng.integers(0, 2, rows)
    women = rng.random(rows) < 0.4
    x[:, FEMALE], x[:, MALE] = women, ~women
    x[:, 0] += 6 * women
    x[:, 1] += y
    return FederatedDataset(x, y, x[:10], y[:10], None, 2, "made up")


@dataclass
class Room:
    """Where cells find digits, and made-up rows for Adult; records what it is shown."""

    adult: FederatedDataset = field(default_factory=lambda: census(3000, 0))
    data_dir: Path = Path("nowhere")
    said: list[tuple[int, float]] = field(default_factory=list)

    def dataset(self, name: str, seed: int) -> FederatedDataset:
        return self.adult if name == "adult" else load(name, self.data_dir, seed)

    def crew(self, work: object):
        raise AssertionError("attacks need no crew")

    def say(self, round: int, figure: float) -> None:
        self.said.append((round, figure))


def run(cell: Attack) -> Outcome:
    room = Room()
    cell.check(room)
    outcome = cell.replay(room)
    assert room.said == [(1, outcome.final)]
    assert outcome.figures == (outcome.final,)
    json.dumps([dict(outcome.facts), {name: list(row) for name, row in outcome.series.items()}])
    return outcome


def inversion(arm: str, targets: int = 1) -> InversionCell:
    cell = BY_NAME[arm]
    return replace(cell, targets=targets)


def test_a_bare_update_gives_the_picture_and_a_sum_of_three_to_the_search_only():
    outcome = run(inversion("inversion-bare"))
    assert outcome.final > 0.99
    assert outcome.facts["recovered"] == 1.0
    assert outcome.facts["epsilon"] is None
    assert len(outcome.series[TRUTH]) == 64
    assert np.abs(np.subtract(outcome.series[TRUTH], outcome.series[FOUND])).max() < 0.05
    assert max(outcome.series[TRUTH]) == 1.0
    outcome = run(inversion("inversion-sum3", targets=2))
    search, quotient = outcome.facts["search"], outcome.facts["quotient"]
    assert search > 0.95 > quotient
    outcome = run(inversion("inversion-node100"))
    above = outcome.facts["above guess"]
    assert above < 0
    assert outcome.final < 0.9


def test_a_mechanism_with_a_gradient_of_its_own_computes_the_step_that_is_attacked() -> None:
    """By its offer alone `dp-sgd` would be a bare update, which gives the picture."""
    outcome = run(inversion("inversion-dp-sgd-epsilon8"))
    assert outcome.facts["epsilon"] == pytest.approx(8.0, rel=0.01)
    half = run(replace(own("tests.own_mechanisms:Counting", {"epsilon": 3.0}), targets=1))
    assert half.final > 0.99, "a half of an update points where the whole does"
    assert half.facts["epsilon"] == 3.0
    assert (outcome.final < 0.5, outcome.facts["recovered"]) == (True, 0.0)


def test_arms_of_a_seed_are_after_the_same_pictures_and_an_arm_has_noise_of_its_own():
    bare, noised, other = (
        run(inversion("inversion-bare")),
        run(inversion(EPSILON1)),
        run(inversion("inversion-bare").seeded(1)),
    )
    assert bare.series[TRUTH] == noised.series[TRUTH] != other.series[TRUTH]
    assert noised.final < 0.5
    assert (noised.facts["epsilon"], noised.facts["recovered"]) == (1.0, 0.0)
    again, renamed = (run(replace(inversion(EPSILON1), arm=arm)) for arm in (EPSILON1, "other"))
    assert again.facts == noised.facts
    assert renamed.final != noised.final


def test_of_several_candidates_the_best_is_taken_and_a_guess_has_as_many() -> None:
    rng = np.random.default_rng(0)
    truth, others = rng.random(64).astype(np.float32), rng.random((30, 64)).astype(np.float32)
    worse, better = (rng.random((2, 64)) + 0.3 * truth).astype(np.float32), 2 * truth + 1
    one = scored(truth, worse[0], np.stack([worse[1], better]), others)
    assert np.array_equal(one.found, better)
    assert one.search == pytest.approx(1.0)
    assert one.best == one.search > one.quotient
    assert one.guess == guessed(truth, others, 3) > one.quotient_guess == guessed(truth, others, 1)
    other = scored(truth, better, worse, others)
    assert other.best == other.quotient == pytest.approx(1.0)
    assert np.array_equal(other.found, better)
    facts = figures([one, scored(truth, worse[0], worse, others)])
    assert facts["recovered"] == 0.5


def property_cell(arm: str) -> PropertyCell:
    cell = BY_NAME[arm]
    return replace(cell, rows=40)


def test_a_property_shows_in_updates_less_in_sums_and_not_under_noise() -> None:
    bare, three, noised = (
        run(property_cell(arm)) for arm in ("property-bare", "property-sum3", "property-epsilon1")
    )
    assert bare.final > 0.9
    assert 0.6 < three.final < 0.87
    assert three.facts["counting auc"] == 0.8125
    assert abs(noised.final - 0.5) < 0.15
    assert noised.facts["epsilon"] == 1.0


def test_sex_and_relationship_are_taken_out_and_other_columns_are_one_line():
    dataset = census(20, 1)
    dataset.train_x[:, 52:58] = 99
    narrowed, women = without_sex(dataset)
    assert narrowed.train_x.shape == (20, FEATURES)
    assert narrowed.test_x.shape == (10, FEATURES)
    assert narrowed.train_x.max() < 99
    assert np.array_equal(women, dataset.train_x[:, FEMALE] == 1)
    assert np.array_equal(narrowed.train_x[:, :52], dataset.train_x[:, :52])
    narrow, wide = census(20, 1), census(20, 1)
    wide.train_x[:, FEMALE] = 1
    for dataset in (replace(narrow, train_x=narrow.train_x[:, :90]), wide):
        with pytest.raises(ConfigError, match="sex is not where it is looked for; take the publisher"):
            BY_NAME["property-bare"].check(Room(dataset))


def membership_cell(epsilon: float, epochs: int) -> MembershipCell:
    cell = BY_NAME[f"membership-epsilon{epsilon:g}" if epsilon else "membership-none"]
    return replace(cell, rows=100, victims=4, shadows=8, train=replace(cell.train, epochs=epochs))


def test_members_show_where_there_is_no_noise() -> None:
    outcome = run(membership_cell(0, 30))
    aucs = [outcome.facts[f"{attack} auc"] for attack in ("loss", "calibrated", "ratio")]
    assert all(isinstance(auc, float) and auc > 0.55 for auc in aucs)
    assert outcome.final == aucs[2]
    assert outcome.facts["ceiling"] == 1.0
    accuracy = outcome.facts["accuracy"]
    assert accuracy > 0.6


def test_private_gradients_are_the_node_s() -> None:
    private, plain = (
        replace(membership_cell(epsilon, 10), rows=60, victims=1, shadows=2) for epsilon in (1, 0)
    )
    outcome = run(private)
    assert (outcome.facts["epsilon"], outcome.facts["delta"]) == (1.0, 1e-5)
    assert str(outcome.facts["unit"]).startswith("one record")
    learned, without_noise = outcome.facts["accuracy"], run(plain).facts["accuracy"]
    assert learned < 0.4 < 0.7 < without_noise
    assert run(private).facts == outcome.facts


def test_each_victim_is_judged_by_its_own_members() -> None:
    """Two victims with opposite members, whose losses are 0 for theirs and 1 for the others."""
    inside = np.array([[True] * 10 + [False] * 10, [False] * 10 + [True] * 10])
    losses = (~inside).astype(float) + 1e-3
    found = attacked(losses, inside, np.full((3, 20), 0.5), np.random.default_rng(0))
    assert found == pytest.approx(dict.fromkeys(found, 1.0))
    assert len(found) == 9
    swapped = attacked(losses[::-1], inside, np.full((3, 20), 0.5), np.random.default_rng(0))
    assert swapped["loss auc"] == swapped["calibrated auc"] == swapped["ratio auc"] == 0.0


def test_the_ceiling_is_that_of_one_row_in_the_place_of_another() -> None:
    promised = SimpleNamespace(guarantee=SimpleNamespace(epsilon=1.0, delta=1e-5))
    assert ceiling(promised) == membership.advantage_at_most(2.0, (1 + math.e) * 1e-5)
    assert ceiling(SimpleNamespace(guarantee=None)) == 1.0


@pytest.mark.parametrize("arm", ["inversion-bare", "property-bare", "membership-none"])
def test_a_cell_is_a_value(arm: str) -> None:
    cell = BY_NAME[arm]
    assert pickle.loads(pickle.dumps(cell)) == cell
    assert (cell.rounds, cell.seeded(3).seed, cell.seeded(3).arm) == (1, 3, arm)
    assert json.dumps(cell.describe()) == json.dumps(cell.seeded(3).describe())
    assert cell.describe()["kind"] == arm.partition("-")[0]
    assert cell.data_sets == (cell.dataset,)


@pytest.mark.parametrize("arm", ["inversion-bare", "property-bare", "membership-none"])
def test_what_can_not_be_attacked_is_found_before(arm: str) -> None:
    broken = replace(BY_NAME[arm], privacy=PrivacySection("collections:OrderedDict"))
    with pytest.raises(ConfigError, match=r"privacy\.mechanism = 'collections:OrderedDict'"):
        broken.check(Room())
    with pytest.raises(ConfigError, match="nowhere_at_all"):
        own("nowhere_at_all:Thing", {})
    with pytest.raises(ConfigError, match=r"privacy\.epsilom"):
        own("tests.own_mechanisms:Counting", {"epsilom": 1.0})
    with pytest.raises(ConfigError, match="1500 rows are needed, and digits has 14"):
        replace(BY_NAME["membership-none"], rows=500).check(Room())
