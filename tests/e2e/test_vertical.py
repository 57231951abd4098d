"""Two parties as real processes: they learn as in one process, and the run ends if one leaves."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from node.system.errors import UserError
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.engines.nodes import ProcessesEngine
from scenarios.study.cells import Cell
from scenarios.vertical.cell import VerticalCell
from scenarios.vertical.choices import LABEL_DP, EmbeddingChoice, LabelChoice
from tests.criteo_rows import SMALL, written
from tests.e2e.displays import Told


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


def test_real_nodes_learn_as_parties_in_one_process_do_but_flip_anew(place: Place, tmp_path: Path) -> None:
    """Bit for bit: the batches are equal, and gradients and outputs travel unchanged."""
    cell, told, expected = replace(SMALL, outputs=EmbeddingChoice(None)), Told(), Told()
    flipping = replace(SMALL, arm="flips", labels=LabelChoice(LABEL_DP, {"epsilon": 1.0}, True))
    ProcessesEngine(2).run([cell, flipping], place, told)
    InlineEngine(1, 1).run([cell, flipping], Place(tmp_path / "inline", place.data_dir), expected)

    assert children() == {}
    facts = [one.ended["flips"].facts for one in (told, expected)]
    assert [(one["epsilon"], one["draws of a label"]) for one in facts] == [(3.0, 3), (3.0, 3)]
    assert len({one["predictions sha256"] for one in facts}) == 2, "a live leader draws its own"
    found, other = told.ended[cell.arm], expected.ended[cell.arm]
    assert (found.figures, found.facts, found.series) == (other.figures, other.facts, other.series)
    assert [number for arm, number in told.rounds if arm == cell.arm] == [1, 2, 3]
    assert place.shelf.get(cell) == found


def test_a_follower_that_is_killed_inside_an_epoch_ends_the_run_and_what_is_finished_stays(
    place: Place,
) -> None:
    cells, told = [SMALL, deadly(place, "deadly", 5)], Told()
    with pytest.raises(UserError) as caught:
        ProcessesEngine(1).run(cells, place, told)

    said = str(caught.value)
    told_of = "leader node ended with exit status 1: the follower left in step 3 of epoch 2;"
    assert said.startswith(f"deadly, seed 0: {told_of}")
    assert "\n" not in said
    assert caught.value.status == 1
    assert children() == {}
    assert [number for arm, number in told.rounds if arm == "deadly"] == [1]
    assert [place.shelf.holds(each) for each in cells] == [True, False]


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
