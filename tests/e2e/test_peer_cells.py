"""A swarm's cell on real nodes gives what its replay gives; a finished cell is not run again."""

from pathlib import Path

import pytest

from node.task.load import load_task
from scenarios.engines.engine import Place
from scenarios.engines.nodes import ProcessesEngine
from scenarios.engines.room import LocalRoom
from scenarios.study.client_accuracy import SPREAD, TENTH, WORST
from scenarios.study.costs import MEASURED, UP
from scenarios.study.skew import DISTANCE
from scenarios.swarms.cells import SwarmCell, run_nodes
from scenarios.swarms.dealt import ACCURACY, HONEST, STEP_BYTES, STEP_S, PeersCell
from tests.own_studies import Told

PEERS, ROUNDS = 3, 3
SMALL = ("model.args.sizes=[64,16,10]", f"train.rounds={ROUNDS}", "aggregation.protocol=additive")


def cell(*overrides: str) -> SwarmCell:
    return SwarmCell("arm", load_task("digits", [*SMALL, *overrides]), PEERS)


def test_real_nodes_learn_and_weigh_as_the_replay_does_and_are_not_run_twice(tmp_path: Path) -> None:
    """The numbers of rows are summed with the updates."""
    said: list[tuple[int, float]] = []
    weighted = ("aggregation.weighting=samples", "aggregation.sample_cap=1000")
    one, room = cell(*weighted), LocalRoom(tmp_path, 1, lambda number, figure: None)
    outcome = run_nodes(one, tmp_path, lambda number, figure: said.append((number, figure)))
    replay = one.replay(room)
    assert outcome.figures == pytest.approx(replay.figures, abs=0.01), "the secure sum rounds, nothing else"
    assert said[-1] == (ROUNDS, outcome.final)
    assert cell().replay(room).facts["model sha256"] != replay.facts["model sha256"]
    for name in (WORST, TENTH, SPREAD):
        assert outcome.facts[name] == pytest.approx(replay.facts[name], abs=0.02)
    assert outcome.facts[DISTANCE] == replay.facts[DISTANCE]
    assert outcome.facts[MEASURED] is True
    assert replay.facts[UP] < outcome.facts[UP] < 2 * replay.facts[UP], "vectors, and small messages"
    assert (outcome.facts["epsilon"], outcome.facts["protects"]) == (None, replay.facts["protects"])
    summaries = [tmp_path / "peers" / str(peer) / "summary.json" for peer in range(PEERS)]
    written = [path.stat().st_mtime_ns for path in summaries]
    again = run_nodes(one, tmp_path, lambda number, figure: None)
    assert (again.figures, again.facts) == (outcome.figures, outcome.facts)
    assert [path.stat().st_mtime_ns for path in summaries] == written


def test_real_nodes_spend_what_the_replay_says(tmp_path: Path) -> None:
    classic = ("privacy.calibration=linear-classic", "privacy.public_radius=true")
    one = cell("privacy.mechanism=aldp", *classic, "privacy.epsilon=30")
    facts = run_nodes(one, tmp_path, lambda number, figure: None).facts
    replay = one.replay(LocalRoom(tmp_path, 1, lambda number, figure: None)).facts
    for name in ("epsilon", "stated", "delta", "unit", "protects", "outside"):
        assert facts[name] == replay[name]


def test_real_nodes_take_the_steps_of_the_replay_on_rows_that_they_are_handed(tmp_path: Path) -> None:
    """All rows in every step and hardly any noise: then the steps are the same but for the noise."""
    table = {
        "task": {"name": "digits"},
        "model": {"class": "node.models:MLP", "args": {"sizes": [64, 16, 10]}},
        "train": {"expected_rows": 1438, "steps": 12, "report_every": 4},
        "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 100_000, "honest": 2},
        "aggregation": {"min_participants": 4},
    }
    one = PeersCell("steps", table, "digits", ACCURACY, peers=4)
    told, place = Told(), Place(tmp_path, tmp_path)
    ProcessesEngine(1).run([one], place, told)
    outcome = place.shelf.get(one)
    replay = one.replay(LocalRoom(tmp_path, 1, lambda number, figure: None))
    assert outcome.figures == pytest.approx(replay.figures, abs=0.02)
    assert told.rounds["steps", 0][-1] == (3, outcome.final)
    assert (outcome.facts[HONEST], outcome.facts["base digests"]) == (2, 1)
    assert outcome.facts[WORST] == pytest.approx(replay.facts[WORST], abs=0.05)
    seconds, sent = outcome.facts[STEP_S], outcome.facts[STEP_BYTES]
    assert isinstance(seconds, float)
    assert isinstance(sent, float)
    assert seconds > 0
    assert sent > 4 * 1210, "a peer sends its words once at least"
    assert outcome.facts["epsilon"] == pytest.approx(replay.facts["epsilon"])
