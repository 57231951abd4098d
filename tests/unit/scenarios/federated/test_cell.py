"""A federated cell: its parts, and the round loop that every engine runs."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mechanisms.mechanism import Guarantee
from mechanisms.noise.clipping import NotFinite
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import Indices, Sent
from node.system.errors import UserError
from node.training.gradient_steps import PlainSteps
from node.training.trainer import Trainer
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.clients.work import ClientWork, Crew, client_work, node_rows
from scenarios.data.dataset import FederatedDataset
from scenarios.engines.room import LocalRoom, load
from scenarios.federated.cell import FederatedCell
from scenarios.federated.rounds import in_order, protection_facts, remembered
from scenarios.study.cells import Outcome
from tests.own_mechanisms import UNIT
from tests.own_studies import NOISED, PLAIN, REMEMBERING, own
from tests.unit.mechanisms.settings import vector
from tests.unit.scenarios.refusals import refused
from tests.unit.scenarios.rooms import replayed, room

HERE = Path("none")
SHORT = PLAIN.lasting(2)


@pytest.fixture(scope="module")
def dataset() -> FederatedDataset:
    return load("breast-cancer", HERE, 0)


def drawn(words: Words) -> tuple[int, ...]:
    out = np.zeros(4, np.uint32)
    words.fill(out)
    return tuple(out.tolist())


def test_a_cell_is_described_without_arm_and_seed_and_what_can_be_changed_of_it():
    described = json.loads(json.dumps(PLAIN.seeded(5).describe()))
    assert described == json.loads(json.dumps(replace(PLAIN, arm="other").describe()))
    assert described["kind"] == "federated"
    assert described["mechanism"] == {"path": "fedavg", "parameters": {"clients_per_round": 3}}
    assert not {"arm", "seed"} & described.keys()
    changed = PLAIN.changed({"train": {"learning_rate": 0.5, "rounds": 4}, "model": {"class": "a.b:C"}})
    assert (changed.train.learning_rate, changed.rounds, changed.model.cls) == (0.5, 4, "a.b:C")
    assert changed.train.batch_size == PLAIN.train.batch_size
    assert changed.model.args == PLAIN.model.args
    assert PLAIN.lasting(3).rounds == 3
    assert PLAIN.seeded(9) == replace(PLAIN, seed=9)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"privacy": {"epsilon": 1}}, "--set privacy.epsilon: this scenario does not have it"),
        ({"train": {"epoch": 1}}, "train.epoch"),
        ({"train": {"rounds": 0}}, "train.rounds = 0"),
    ],
)
def test_a_key_that_can_not_be_changed_is_one_line(table: dict[str, Any], said: str) -> None:
    with refused(said):
        PLAIN.changed(table)


def test_more_clients_have_as_many_rows_each_where_rows_are_counted() -> None:
    counted = replace(PLAIN, rows=RowChoice("breast-cancer", 200)).among(10)
    assert (counted.clients.count, counted.rows.most) == (10, 400)
    assert PLAIN.among(10).rows.most is None
    assert PLAIN.among(10).mechanism == PLAIN.mechanism, "three of them, as before"
    everybody = replace(PLAIN, mechanism=MechanismChoice("fedavg", {"clients_per_round": 5}))
    assert everybody.among(10).mechanism.parameters == {"clients_per_round": 10}


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (PLAIN.changed({"train": {"optimizer": "adam"}}), "train.optimizer"),
        (PLAIN.changed({"train": {"parameters": "layers.0.*"}}), "train.parameters"),
        (PLAIN.among(456), "456 clients by partition iid"),
        (PLAIN.among(2), "clients_per_round = 3 is not allowed: at most 2"),
        (replace(PLAIN, rows=RowChoice("breast-cancer", 456)), "456 are asked for"),
        (own("tests.own_mechanisms:Raising", {}), "is out of order"),
        (own("tests.own_mechanisms:Greedy", {"clients_per_round": 3}), "the number of clients"),
        (PLAIN.changed({"model": {"args": {"sizes": [0]}}}), "sizes"),
        (PLAIN.changed({"model": {"class": "tests.own_models:Nothing"}}), "Nothing"),
    ],
)
def test_what_can_not_be_run_is_one_line_before_anything_is_trained(cell: FederatedCell, said: str) -> None:
    with refused(said):
        cell.check(room())


def test_blocks_hold_every_client_once_the_largest_first_and_proximal_terms_add_up(dataset):
    cell = replace(PLAIN, clients=Clients("quantity", 9, {"alpha": 0.5}), block=4)
    work = client_work(cell, dataset)
    chosen = np.array([0, 2, 3, 4, 5, 7, 8])
    blocks = work.blocks(chosen)
    sizes = [len(work.parts[client]) for block in blocks for client in block]
    assert [len(block) for block in blocks] == [4, 3]
    assert sorted(np.concatenate(blocks).tolist()) == chosen.tolist()
    assert sizes == sorted(sizes, reverse=True)
    mechanism = MechanismChoice("fedprox", {"clients_per_round": 2, "proximal": 0.25})
    cell = replace(PLAIN, mechanism=mechanism).changed({"train": {"proximal": 0.5}})
    assert client_work(cell, dataset).training.proximal_mu == 0.75
    assert client_work(PLAIN, dataset).training.proximal_mu == 0


def test_seeds_differ_in_model_rows_and_order_and_arms_in_noise_alone(dataset: FederatedDataset) -> None:
    cells = (PLAIN, PLAIN.seeded(1), replace(PLAIN, arm="other"))
    one, seeded, other = (client_work(cell, dataset) for cell in cells)
    assert not np.array_equal(one.start, seeded.start)
    assert not np.array_equal(one.parts[0], seeded.parts[0])
    assert one.order_seed(0, 1) != seeded.order_seed(0, 1)
    assert np.array_equal(one.start, other.start)
    assert np.array_equal(one.parts[0], other.parts[0])
    assert one.order_seed(0, 1) == other.order_seed(0, 1)
    noise = [drawn(work.upload_words(0, 1)) for work in (one, seeded, other)]
    assert noise[0] != noise[1] != noise[2] != noise[0]
    assert len({drawn(one.upload_words(k, n)) for k in range(3) for n in (1, 2)}) == 6
    assert drawn(one.upload_words(1, 2)) == drawn(one.upload_words(1, 2))


def test_uploads_come_in_the_order_of_the_chosen() -> None:
    blocks = [np.array([5, 1]), np.array([3])]
    sent = [[Sent(vector(number), vector(-number)) for number in block] for block in blocks]
    ordered = in_order(np.array([1, 3, 5]), blocks, sent)
    assert list(ordered) == [1, 3, 5]
    kept = {5: vector(7), 2: vector(2)}
    uploads = remembered(ordered, kept)
    assert [upload.tolist() for upload in uploads.values()] == [[1.0], [3.0], [5.0]]
    assert {client: own.tolist() for client, own in kept.items()} == {1: [-1], 2: [2], 3: [-3], 5: [-5]}


POISSON: dict[str, Any] = {
    "sampling_probability": 1e-9,
    "noise_multiplier": 0.0,
    "clip": 1.0,
    "per_layer": False,
    "estimator": "fixed",
    "weight_cap": 91.0,
    "delta": 1e-5,
}


@dataclass(frozen=True)
class StrangeCrew:
    """Sends what `upload` returns for each of the chosen; None: nothing."""

    upload: Any
    asked: list[tuple[int, list[int], np.ndarray]] = field(default_factory=list)

    def uploads(self, number: int, model: np.ndarray, chosen: Indices) -> Mapping[int, np.ndarray]:
        self.asked.append((number, chosen.tolist(), model))
        sent = {int(client): self.upload(int(client), model) for client in chosen}
        return {client: upload for client, upload in sent.items() if upload is not None}


@dataclass(frozen=True)
class StrangeRoom(LocalRoom):
    """A room with that crew."""

    strange: StrangeCrew = field(default_factory=lambda: StrangeCrew(lambda client, model: model))

    @contextmanager
    def crew(self, work: ClientWork) -> Iterator[Crew]:
        yield self.strange


def rounds_by(crew: StrangeCrew, cell: FederatedCell = SHORT) -> Outcome:
    return cell.replay(StrangeRoom(HERE, 1, lambda number, figure: None, strange=crew))


def test_the_round_loop_asks_for_the_chosen_and_takes_their_weighted_mean(dataset: FederatedDataset) -> None:
    cell = replace(SHORT.lasting(3), clients=Clients("quantity", 9, {"alpha": 0.5}))
    crew = StrangeCrew(lambda client, model: model + client)
    outcome = rounds_by(crew, cell)
    work, expected = client_work(cell, dataset), []
    model = work.start
    for _, chosen, _ in crew.asked:
        expected.append(model)
        model = model + np.float32(np.average(chosen, weights=[len(work.parts[client]) for client in chosen]))
    assert [number for number, _, _ in crew.asked] == [1, 2, 3]
    assert all(len(chosen) == 3 for _, chosen, _ in crew.asked)
    for (_, _, given), wanted in zip(crew.asked, expected, strict=True):
        assert given == pytest.approx(wanted, abs=1e-5)
    assert outcome.figures[-1] == evaluated(work, model)
    assert outcome.facts["missing uploads"] == 0


def evaluated(work: ClientWork, model: np.ndarray) -> float:
    rows = node_rows(work.dataset, work.parts[0][:1])
    trainer = Trainer(work.model, work.cell.train, rows, 0, PlainSteps)
    return trainer.evaluate(model).accuracy


def test_uploads_that_do_not_come_are_counted_and_the_rounds_go_on() -> None:
    outcome = rounds_by(StrangeCrew(lambda client, model: model if client else None), SHORT.lasting(8))
    nobody = rounds_by(StrangeCrew(lambda client, model: None), SHORT)
    assert 0 < int(outcome.facts["missing uploads"] or 0) < 3 * 8
    assert nobody.facts["missing uploads"] == 6
    assert len(nobody.figures) == 2


def not_finite(client: int, model: np.ndarray) -> np.ndarray:
    raise NotFinite("not finite")


@pytest.mark.parametrize(
    "upload", [lambda _, model: model * np.nan, lambda _, model: model + np.inf, not_finite], ids=range(3)
)
def test_training_that_leaves_the_finite_numbers_is_one_line(upload: Any) -> None:
    with pytest.raises(UserError, match=r"training diverged in round 1: .* lower train\.learning_rate"):
        rounds_by(StrangeCrew(upload))


def test_state_is_threaded_through_the_rounds_and_clients_remember() -> None:
    """After n rounds of 3 clients the state has counted 3 n uploads, each with its client's own count."""
    facts = replayed(REMEMBERING).facts
    rounds = REMEMBERING.rounds
    assert facts["rounds told to clients"] == sum(range(rounds))
    counts = [facts[f"uploads of client {client}"] for client in range(5)]
    assert sum(float(count or 0) for count in counts) == 3 * rounds
    assert [facts[f"uploads that client {client} remembers"] for client in range(5)] == counts
    assert facts["model sha256"] == replayed(replace(PLAIN, arm=REMEMBERING.arm)).facts["model sha256"]


def test_a_replay_says_each_round_and_gives_the_same_bits_on_one_thread_and_on_two():
    said: list[tuple[int, float]] = []
    outcome = PLAIN.replay(room(say=lambda number, figure: said.append((number, figure))))
    assert [number for number, _ in said] == list(range(1, 9))
    assert tuple(figure for _, figure in said) == outcome.figures
    assert outcome.final > 0.9
    assert outcome.seconds > 0
    assert outcome.facts["epsilon"] is None
    one, two = replayed(NOISED, threads=1), replayed(NOISED, threads=2)
    assert (one.figures, one.facts) == (two.figures, two.facts)
    assert one.facts["download noise std"]
    assert replayed(replace(NOISED, arm="other")).facts["model sha256"] != one.facts["model sha256"]
    assert replayed(NOISED.seeded(1)).facts["model sha256"] != one.facts["model sha256"]


def test_the_facts_of_a_guarantee_are_json_and_a_round_of_nobody_leaves_the_model():
    noisy = {**POISSON, "sampling_probability": 0.5, "noise_multiplier": 1.0}
    facts = replayed(replace(SHORT, mechanism=MechanismChoice("dp-fedavg", noisy))).facts
    assert 0 < float(facts["epsilon"] or 0) < 100
    assert facts["unit"]
    guarantee = Guarantee(UNIT, math.inf, 1e-5, 8.0)
    promise = {"name": "promise", "protects": "nothing", "events": lambda rounds: ()}
    endless = protection_facts(SimpleNamespace(guarantee=guarantee, **promise))
    assert (endless["epsilon"], endless["stated"], endless["delta"]) == (None, 8.0, 1e-5)
    assert protection_facts(SimpleNamespace(guarantee=None, **promise))["unit"] is None
    outcome = replayed(replace(SHORT, mechanism=MechanismChoice("dp-fedavg", POISSON)))
    assert len(set(outcome.figures)) == 1
    assert outcome.facts["missing uploads"] == 0
