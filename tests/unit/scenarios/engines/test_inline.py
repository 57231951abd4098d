"""Engine `inline`: cells in this process and in child processes give the same, and report progress."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from node.system.errors import UserError
from scenarios.clients.choices import RowChoice
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.study.threads import one_thread
from tests.own_studies import NOISED, PLAIN, SHRINKING, Told, own

OWN = own(SHRINKING, {"clients_per_round": 3})
CELLS = [cell.lasting(8).seeded(seed) for seed in (0, 1) for cell in (NOISED, OWN)]
BREAKING = own("tests.own_mechanisms:Breaking", {"clients_per_round": 3})


def place(folder: Path) -> Place:
    return Place(folder, folder / "no data")


def kept(place: Place, cells: list) -> list[tuple]:
    outcomes = [place.shelf.get(cell) for cell in cells]
    return [(outcome.figures, outcome.facts) for outcome in outcomes]


def test_cells_in_this_process_and_in_children_give_the_same_bits(tmp_path: Path) -> None:
    alone, beside, told = place(tmp_path / "1"), place(tmp_path / "2"), Told()
    beside.shelf.folder.mkdir(parents=True)
    for cell in CELLS:  # the lines of a run that was stopped are not told again
        beside.shelf.log(cell).write_text("round 1: 0.001\nround 2: 0.001\nKilled\n")
    InlineEngine(1, 2).run(CELLS, alone, Told())
    InlineEngine(2, 2).run(CELLS, beside, told)
    assert kept(alone, CELLS) == kept(beside, CELLS)
    assert sorted(told.ended) == sorted((cell.arm, cell.seed) for cell in CELLS)
    for cell in CELLS:
        figures = beside.shelf.get(cell).figures
        assert told.rounds[cell.arm, cell.seed] == list(enumerate(figures, start=1))


def test_one_cell_tells_its_rounds_and_then_its_end_and_leaves_the_threads(tmp_path):
    told, here = Told(), place(tmp_path)
    InlineEngine(4, 2).run(CELLS[:1], here, told)
    assert told.ended == [("noised", 0)]
    assert told.rounds["noised", 0] == list(enumerate(here.shelf.get(CELLS[0]).figures, start=1))
    assert not here.shelf.log(CELLS[0]).exists()
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_mechanism_that_raises_is_one_line_and_what_is_finished_stays(tmp_path: Path, jobs: int) -> None:
    """With two processes either seed may be the first that fails."""
    here = place(tmp_path)
    first = "0" if jobs == 1 else "[01]"
    with pytest.raises(UserError, match=rf"^own, seed {first}.*: the scales are stuck \(log: ") as raised:
        InlineEngine(jobs, 2).run([PLAIN.lasting(1), BREAKING, BREAKING.seeded(1)], here, Told())
    assert raised.value.status == 1
    failed = BREAKING if "seed 0" in str(raised.value) else BREAKING.seeded(1)
    assert "Traceback" in here.shelf.log(failed).read_text()
    assert jobs == 2 or here.shelf.holds(PLAIN.lasting(1))
    assert not here.shelf.holds(BREAKING)


def test_what_a_cell_says_is_wrong_is_told_with_its_name(tmp_path: Path) -> None:
    missing = replace(PLAIN, rows=RowChoice("mnist"))
    with pytest.raises(UserError, match=r"^plain, seed 0: data set mnist: .* scenarios data mnist") as raised:
        InlineEngine(1, 1).run([missing], place(tmp_path), Told())
    assert raised.value.status == 2
    assert not place(tmp_path).shelf.log(missing).exists()
