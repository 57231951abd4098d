"""The input of real nodes; a node trains a client as engine inline does."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mechanisms.noise.clipping import Floats
from node.system.errors import UserError
from node.training.trainer import Diverged
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.clients.poisons import Attackers, LabelFlip, Scaling
from scenarios.clients.preparation import prepared
from scenarios.clients.work import ClientWork, client_work
from scenarios.data import sources
from scenarios.engines.engine import Place
from scenarios.engines.federated_worker import Post, trained_upload
from scenarios.engines.nodes import MOST_NODES, ProcessesEngine, posts
from scenarios.federated.cell import FederatedCell
from scenarios.federated.rounds import train_block
from scenarios.study.cells import Outcome
from tests.own_studies import NOISED, NOISY, PLAIN, REMEMBERING, RPFL, SHRINKING, Told

LAYERED = {
    "sampling_probability": 0.5,
    "noise_multiplier": 0.0,
    "clip": 0.05,
    "per_layer": True,
    "estimator": "fixed",
    "weight_cap": 50.0,
    "delta": 1e-5,
}
BOOK = {"clients_per_round": 2, "scale": 0.5, "clip_radius": 0.05, "noise_std": 0.001, "delta": 1e-5}

ADAPTIVE = {"sampling_probability": 0.5, "noise_multiplier": 0.0, "delta": 1e-5}


def made(name: str, parameters: dict[str, object], **train: object) -> FederatedCell:
    mechanism = MechanismChoice(name, parameters)
    return replace(PLAIN, mechanism=mechanism, train=replace(PLAIN.train, epochs=2, **train))


CELLS = {
    "plain": PLAIN,
    "two epochs, momentum and decay": made("fedavg", {"clients_per_round": 3}, weight_decay=0.01),
    "no momentum, no clipping": made("fedavg", {"clients_per_round": 3}, momentum=0.0, grad_clip=None),
    "proximal, noised": NOISED,
    "proximal, clipped, noised": made(
        "nbafl-federatedscope", {**NOISY, "proximal": 5.0, "grad_clip": 0.3}, learning_rate=0.05
    ),
    "clipped after every batch": made("dp-fedavg", LAYERED),
    "the book's": made("dp-fedavg-book", BOOK),
    "forged": replace(PLAIN, attackers=Attackers(0.8, None, Scaling(3.0))),
    "poisoned": replace(PLAIN, attackers=Attackers(0.8, LabelFlip(2))),
    "regularised, rows noised": replace(
        made("rpfl", RPFL, learning_rate=0.02), rows=RowChoice("breast-cancer", None, 1.0)
    ),
    "rows noised in each round": replace(
        made("rpfl", {**RPFL, "draw": "each-round"}, learning_rate=0.02),
        rows=RowChoice("breast-cancer", None, 1.0),
    ),
    "remembering": REMEMBERING,
    "proximal": made("fedprox", {"clients_per_round": 3, "proximal": 2.0}),
    "control variates": made("scaffold", {"clients_per_round": 3}),
    "clipped to what the server says": made("dp-fedavg-adaptive", ADAPTIVE),
    "a user's own": made(SHRINKING, {"clients_per_round": 3}),
}


def work_of(cell: FederatedCell) -> ClientWork:
    rng = np.random.default_rng([cell.seed, 1])
    return client_work(cell, sources.load(cell.rows.dataset, Path(), rng))


def given(work: ClientWork) -> Floats:
    """What the server sends before the first round."""
    return np.concatenate([work.start, work.mechanism.told(work.mechanism.start())])


def sent(work: ClientWork, client: int, number: int) -> Floats:
    words = work.upload_words(client, number)
    return trained_upload(work, client, number, given(work), words, {}).vector


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_node_trains_a_client_as_engine_inline_does(cell: FederatedCell) -> None:
    client, number = 3, 5
    bare = work_of(cell)
    work = prepared(bare, bare.example_words)
    (trained,) = train_block(work, number, given(work), np.array([client]), {})
    expected = trained.vector
    found = sent(work, client, number)
    assert np.abs(found - expected).max() < 1e-6
    assert np.abs(found - given(work)).max() > 1e-3


@pytest.mark.parametrize("cell", [PLAIN, NOISED], ids=["plain", "noised"])
def test_a_node_needs_no_more_than_its_post(cell: FederatedCell) -> None:
    work = work_of(cell)
    server, *nodes = posts(work)
    assert np.array_equal(server.work().start, work.start)
    for client in range(len(work.parts)):
        here = nodes[client % len(nodes)].work()
        assert np.array_equal(here.start, work.start)
        assert np.array_equal(sent(here, client, 2), sent(work, client, 2))


def test_a_client_s_rows_are_with_its_node_and_nowhere_else() -> None:
    work = work_of(replace(PLAIN, clients=Clients("iid", 30)))
    server, *nodes = posts(work)
    assert len(nodes) == MOST_NODES
    for number, post in enumerate(nodes):
        mine = range(number, 30, MOST_NODES)
        assert [len(part) for part in post.parts] == [
            len(work.parts[client]) if client in mine else 0 for client in range(30)
        ]
        assert len(post.dataset.train_x) == sum(len(work.parts[client]) for client in mine)
        assert len(post.dataset.test_x) == 1
        for client in mine:
            rows, there = work.parts[client], post.parts[client]
            assert np.array_equal(post.dataset.train_x[there], work.dataset.train_x[rows])
            assert np.array_equal(post.dataset.train_y[there], work.dataset.train_y[rows])
    assert len(server.dataset.train_x) == 1
    assert np.array_equal(server.dataset.test_x, work.dataset.test_x)
    assert [len(part) for part in server.parts] == [len(part) for part in work.parts]


def test_a_post_travels_to_a_process():
    post = posts(work_of(NOISED))[1]
    again: Post = pickle.loads(pickle.dumps(post))
    assert np.array_equal(sent(again.work(), 0, 1), sent(post.work(), 0, 1))


def test_few_clients_have_a_node_each() -> None:
    assert [post.nodes for post in posts(work_of(PLAIN))] == [5] * 6


def test_training_that_diverges_says_what_to_change():
    train = replace(PLAIN.train, learning_rate=1000.0, weight_decay=1000.0, epochs=9)
    work = work_of(replace(PLAIN, train=train))
    with pytest.raises(Diverged, match=r"diverged in round 2, .* lower train\.learning_rate = 1000"):
        sent(work, 0, 2)


class Replayed:
    """A cell in which no node takes part."""

    rounds, seed = 2, 0

    def __init__(self, arm: str, fails: bool = False) -> None:
        self.arm, self.fails = arm, fails

    def replay(self, room) -> Outcome:
        if self.fails:
            raise UserError("the wind is against it")
        for number in (1, 2):
            room.say(number, number / 2)
        return Outcome((0.5, 1.0), {}, 0.0)


def test_cells_are_replayed_in_order_and_kept_and_one_that_can_not_be_made_starts_nothing(tmp_path):
    place, told = Place(tmp_path, tmp_path), Told()
    cells = [Replayed("one"), Replayed("two"), Replayed("three", fails=True)]
    with pytest.raises(UserError, match="three, seed 0: the wind is against it"):
        ProcessesEngine(1).run(cells, place, told)
    assert told.ended == [("one", 0), ("two", 0)]
    assert told.rounds == {(arm, 0): [(1, 0.5), (2, 1.0)] for arm in ("one", "two")}
    assert [place.shelf.holds(cell) for cell in cells] == [True, True, False]
    cell = replace(PLAIN, mechanism=MechanismChoice("fedavg", {"clients_per_round": 6}))
    with pytest.raises(UserError, match=r"plain, seed 0: mechanism 'fedavg': clients_per_round = 6"):
        ProcessesEngine(1).run([cell], Place(tmp_path, tmp_path), Told())
    assert not (tmp_path / "nodes").exists()
