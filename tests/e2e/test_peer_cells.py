"""A swarm's cell on real nodes gives what its replay gives; a finished cell is not run again."""

from pathlib import Path

import pytest

from node.task.load import load_task
from scenarios.engines.room import LocalRoom
from scenarios.swarms.cells import SwarmCell, run_nodes

PEERS, ROUNDS = 3, 3
SMALL = ("model.args.sizes=[64,16,10]", f"train.rounds={ROUNDS}", "aggregation.protocol=additive")


def cell(*overrides: str) -> SwarmCell:
    return SwarmCell("arm", load_task("digits", [*SMALL, *overrides]), PEERS)


def test_real_nodes_learn_what_the_replay_does_and_are_not_run_twice(tmp_path: Path) -> None:
    said: list[tuple[int, float]] = []
    one = cell()
    outcome = run_nodes(one, tmp_path, lambda number, figure: said.append((number, figure)))
    replay = one.replay(LocalRoom(tmp_path, 1, lambda number, figure: None))
    assert outcome.figures == pytest.approx(replay.figures, abs=0.01), "the secure sum rounds, nothing else"
    assert said[-1] == (ROUNDS, outcome.final)
    assert (outcome.facts["epsilon"], outcome.facts["protects"]) == (None, replay.facts["protects"])
    summaries = [tmp_path / "peers" / str(peer) / "summary.json" for peer in range(PEERS)]
    written = [path.stat().st_mtime_ns for path in summaries]
    again = run_nodes(one, tmp_path, lambda number, figure: None)
    assert (again.figures, again.facts) == (outcome.figures, outcome.facts)
    assert [path.stat().st_mtime_ns for path in summaries] == written


@pytest.mark.parametrize("peers", [3, 4])
def test_real_nodes_weigh_their_updates_as_the_replay_does(tmp_path: Path, peers: int) -> None:
    """The numbers of rows are summed with the updates; all end with one base."""
    weighted = ("aggregation.weighting=samples", "aggregation.sample_cap=1000")
    task = load_task("digits", [*SMALL[:2], *weighted])
    one = SwarmCell("arm", task, peers)
    outcome = run_nodes(one, tmp_path, lambda number, figure: None)
    replay = one.replay(LocalRoom(tmp_path, 1, lambda number, figure: None))
    plain = SwarmCell("plain", load_task("digits", [*SMALL[:2]]), peers)
    unweighted = plain.replay(LocalRoom(tmp_path, 1, lambda number, figure: None))
    assert outcome.figures == pytest.approx(replay.figures, abs=0.01)
    assert unweighted.facts["model sha256"] != replay.facts["model sha256"]


def test_real_nodes_spend_what_the_replay_says(tmp_path: Path) -> None:
    one = cell("privacy.mechanism=aldp", "privacy.calibration=linear-classic", "privacy.epsilon=30")
    facts = run_nodes(one, tmp_path, lambda number, figure: None).facts
    replay = one.replay(LocalRoom(tmp_path, 1, lambda number, figure: None)).facts
    for name in ("epsilon", "stated", "delta", "unit", "protects", "outside"):
        assert facts[name] == replay[name]
