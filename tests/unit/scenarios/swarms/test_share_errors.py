"""The error of shares by the nodes' own arithmetic: bit for bit what a group of machines computes."""

import json
import pickle
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from node.system.errors import ConfigError
from node.task.load import load_task
from protocol.aggregation.additive.shares import ShareSettings
from protocol.crypto.sealing import derive
from protocol.vectors.pieces import PIECE_WORDS
from scenarios.engines.engine import Place
from scenarios.engines.nodes import ProcessesEngine
from scenarios.swarms.cells import SwarmCell
from scenarios.swarms.share_errors import ShareErrorCell, mean_by_shares, share_errors
from tests.own_studies import Told
from tests.parts import completed, machines, mean_of, members, rand, vector
from tests.unit.scenarios.rooms import room

SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", "train.rounds=2")


class Handed:
    """Seeds as machines derive them, in the order in which the code here requests them."""

    def __init__(self, count: int) -> None:
        keys = [key.public for key in members(count)]
        masks = [derive(rand(one), b"mask", keys[other]) for one, other in permutations(range(count), 2)]
        self._left = [*(derive(rand(number), b"rounding") for number in range(count)), *masks]

    def bytes(self, length: int) -> bytes:
        return self._left.pop(0)


def cell(*overrides: str) -> ShareErrorCell:
    return ShareErrorCell(
        "arm", load_task("digits", [*SMALL, "aggregation.protocol=additive", *overrides]), 3
    )


def run(one: ShareErrorCell, said: list[tuple[int, float]] | None = None):
    told = [] if said is None else said
    return one.replay(room(say=lambda number, figure: told.append((number, figure))))


@pytest.mark.parametrize("kind", ["seed", "ring", "float"])
@pytest.mark.parametrize(("count", "dimension"), [(3, 50), (4, 50), (3, PIECE_WORDS + 3)])
def test_the_mean_is_the_one_that_machines_come_to(kind: str, count: int, dimension: int) -> None:
    settings = ShareSettings(kind, 4.0, 100.0)
    vectors = [vector(number, dimension) for number in range(count)]
    theirs = mean_of(completed(machines(count, dimension, settings), vectors)[0])
    ours = mean_by_shares(vectors, settings.for_group(count), Handed(count))
    if kind == "float":  # they add shares in the order of arrival: the last bits may differ
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    else:
        assert ours.tobytes() == theirs.tobytes()


def test_errors_are_distances_from_the_true_mean_within_the_bound_of_fixed_point():
    vectors = [vector(number, 400) for number in range(5)]
    shares = ShareSettings("ring", 4.0, 100.0).for_group(5)
    errors = share_errors(vectors, shares, np.random.default_rng(0))
    bound = 1 / shares.encoding.scale + 2.0**-24
    assert errors.shape == (400,)
    assert 0 < errors.max() < bound

    class Off:
        """Makes every mean off by -0.25."""

        def __getattr__(self, name: str):
            return getattr(SHARES, name)

        def decode(self, total):
            return SHARES.decode(total) - np.float32(0.25)

    errors = share_errors([vector(number) for number in range(3)], Off(), np.random.default_rng(0))
    np.testing.assert_allclose(errors, 0.25, atol=1e-6)


SHARES = ShareSettings("ring", 4.0, 100.0).for_group(3)


def test_float_errors_grow_with_the_range_of_the_shares() -> None:
    outcomes = [
        run(cell("aggregation.shares=float", f"aggregation.max_share_value={value}"))
        for value in (10, 100, 1000)
    ]
    medians = [outcome.final for outcome in outcomes]
    for one, other in pairwise(medians):
        assert other / one == pytest.approx(10, rel=0.3)
    assert 1e-7 < medians[0] < 1e-6


def test_a_cell_gives_a_median_a_round_and_the_same_twice() -> None:
    one, said = cell("aggregation.shares=float"), []
    outcome, again = run(one, said), run(one)
    assert said == list(enumerate(outcome.figures, 1))
    assert (outcome.figures, outcome.facts) == (again.figures, again.facts)
    largest = outcome.facts["largest_error"]
    assert max(outcome.figures) < largest
    assert outcome.facts["median_error"] == pytest.approx(np.median(outcome.figures))
    assert run(one.seeded(1)).figures != outcome.figures
    other = replace(one, arm="other")
    assert run(other).figures != outcome.figures, "its shares are its own"


def test_engine_processes_replays_it_and_starts_no_node(tmp_path):
    told = Told()
    ProcessesEngine(1).run([cell()], Place(tmp_path, tmp_path), told)
    assert told.ended == [("arm", 0)]
    assert not (tmp_path / "nodes").exists()


@pytest.mark.parametrize("kind", ["seed", "ring"])
def test_fixed_point_is_far_more_exact(kind: str) -> None:
    assert run(cell(f"aggregation.shares={kind}")).final < 3e-9


def test_a_cell_is_changed_and_checked_as_its_swarm():
    one = cell("aggregation.shares=float")
    changed = one.seeded(3).lasting(5).among(7).changed({"aggregation": {"max_share_value": 9}})
    assert (changed.arm, changed.seed, changed.rounds, changed.peers) == ("arm", 3, 5, 7)
    assert changed.task.aggregation.max_share_value == 9
    assert one.describe() != SwarmCell("arm", one.task, 3).describe()
    assert json.loads(json.dumps(one.describe()))["kind"] == "share error"
    assert json.dumps(one.describe()) == json.dumps(one.seeded(3).describe())
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.data_sets == ()
    cell().check(room())
    with pytest.raises(ConfigError, match=r"nowhere\.csv"):
        cell("data.source='nowhere.csv'").check(room())
    with pytest.raises(ConfigError, match="--peers 2"):
        cell().among(2)
