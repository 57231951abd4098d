"""Two parties as real processes: they learn as in one process, and the run ends if one leaves."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from node.errors import UserError
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.engines.nodes import ProcessesEngine
from scenarios.study.cells import Cell
from scenarios.vertical.cell import VerticalCell
from scenarios.vertical.choices import LABEL_DP, EmbeddingChoice, LabelChoice
from tests.criteo_rows import SMALL, written
from tests.e2e.displays import Told
from tests.e2e.processes import Nursery

ENOUGH_S = 120.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "out", written(tmp_path / "data"))


def children() -> dict[str, int]:
    return {child.name: child.pid for child in active_children() if child.pid is not None}


def deadly(place: Place, arm: str, nth: int) -> VerticalCell:
    """A cell whose follower dies when the labels of batch `nth`, from 1, are read: an epoch has 3 batches."""
    log = place.folder / "nodes" / f"{arm}-0" / "follower.log"
    choice = LabelChoice("tests.e2e.deadly_labels:Deadly", {"nth": nth, "log": str(log)}, True)
    return replace(SMALL, arm=arm, labels=choice)


def test_real_nodes_learn_as_parties_in_one_process_do(place: Place, tmp_path: Path) -> None:
    """Bit for bit: the batches are equal, and gradients and outputs travel unchanged."""
    signs = replace(SMALL, arm="signs", outputs=EmbeddingChoice(None))
    cells, told, expected = [SMALL, signs], Told(), Told()
    ProcessesEngine(2).run(cells, place, told)
    InlineEngine(1, 1).run(cells, Place(tmp_path / "inline", place.data_dir), expected)

    assert children() == {}
    for cell in cells:
        found, other = told.ended[cell.arm], expected.ended[cell.arm]
        assert (found.figures, found.facts, found.series) == (other.figures, other.facts, other.series)
        assert [number for arm, number in told.rounds if arm == cell.arm] == [1, 2, 3]
        assert place.shelf.get(cell) == found


def test_flips_of_a_live_leader_are_new_each_time_and_cost_what_a_replay_says(place: Place) -> None:
    flipped = replace(SMALL, arm="flipped", labels=LabelChoice(LABEL_DP, {"epsilon": 1.0}, True))
    digests = set()
    for _ in range(2):
        told = Told()
        ProcessesEngine(1).run([flipped], place, told)
        facts = told.ended["flipped"].facts
        digests.add(facts["predictions sha256"])
        assert (facts["epsilon"], facts["draws of a label"]) == (3.0, 3)
    assert len(digests) == 2


@pytest.mark.parametrize(("nth", "where"), [(5, "step 3 of epoch 2"), (6, "judging batch 1 of epoch 2")])
def test_a_follower_that_is_killed_inside_an_epoch_ends_the_run_and_what_is_finished_stays(
    nth: int, where: str, place: Place
) -> None:
    cell, told = deadly(place, "deadly", nth), Told()
    with pytest.raises(UserError) as caught:
        ProcessesEngine(1).run([SMALL, cell], place, told)

    said = str(caught.value)
    assert said.startswith(
        f"deadly, seed 0: leader node ended with exit status 1: the follower left in {where};"
    )
    assert "\n" not in said
    assert caught.value.status == 1
    assert children() == {}
    assert [number for arm, number in told.rounds if arm == "deadly"] == [1]
    assert [place.shelf.holds(each) for each in (SMALL, cell)] == [True, False]


def test_a_leader_that_is_killed_ends_the_run_too(place: Place) -> None:
    def kill(cell: Cell, number: int) -> None:
        if number == 1:
            os.kill(children()["leader node"], signal.SIGKILL)

    long = replace(SMALL.lasting(500), arm="long")
    with pytest.raises(UserError, match=r"^long, seed 0: leader node ended with signal SIGKILL: "):
        ProcessesEngine(1).run([long], place, Told(kill))
    assert children() == {}
    assert not place.shelf.holds(long)
    log = (place.folder / "nodes" / "long-0" / "follower.log").read_text()
    assert "the server at" in log


def test_on_the_command_line_a_party_that_leaves_is_one_line_and_no_results(
    nursery: Nursery, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    log = out / "nodes" / "own-0" / "follower.log"
    keys = (
        *("scenario.arms=none", "scenario.mechanism=tests.e2e.deadly_labels:Deadly"),
        f'scenario.parameters={{nth=1, log="{log}"}}',
    )
    runner = nursery.plain(
        *("scenarios", "run", "label-dp", "--engine", "processes", "--rounds", "2", "--out", str(out)),
        *("--data-dir", str(written(tmp_path / "data"))),
        *(text for key in keys for text in ("--set", key)),
        cwd=tmp_path,
    )
    assert runner.status(ENOUGH_S) == 1, runner.told()
    runner.err.join()
    (line,) = runner.err.all()
    assert (
        "own, seed 0: leader node ended with exit status 1: the follower left in step 1 of epoch 1;" in line
    )
    assert [path.name for path in (out / "cells").glob("*.json")] == ["none-0.json"]
    assert not (out / "result.json").exists()
    assert not (out / "report.html").exists()
