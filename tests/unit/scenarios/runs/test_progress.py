"""The progress of a sweep, on a terminal and without one."""

import io
import re

from rich.console import Console

from scenarios.runs.progress import SweepBar, SweepLines, cell_text, sweep_shown
from scenarios.study.cells import Outcome
from tests.own_studies import PLAIN

CELLS = [PLAIN.lasting(2), PLAIN.lasting(2).seeded(1)]
OUTCOME = Outcome((0.25, 0.98765), {}, 12.34)


def test_without_a_terminal_a_line_a_cell() -> None:
    out = io.StringIO()
    with sweep_shown(Console(file=out, width=40), CELLS) as display:
        assert isinstance(display, SweepLines)
        display.round_ended(CELLS[0], 1, 0.25)
        display.round_ended(CELLS[0], 2, 0.98765)
        assert out.getvalue() == ""
        for cell in CELLS:
            display.cell_ended(cell, OUTCOME)
    first, second = out.getvalue().splitlines()
    assert re.fullmatch(r"cell 1/2  plain, seed 0: 0\.9877 in 12\.3 s  \d+:\d\d left", first)
    assert second == "cell 2/2  plain, seed 1: 0.9877 in 12.3 s  0:00 left"


def test_on_a_terminal_one_bar_for_all_rounds() -> None:
    out = io.StringIO()
    with sweep_shown(Console(file=out, width=120, force_terminal=True), CELLS) as display:
        assert isinstance(display, SweepBar)
        display.round_ended(CELLS[0], 1, 0.25)
        display.cell_ended(CELLS[0], OUTCOME)
        display.round_ended(CELLS[1], 1, 0.5)
        display.cell_ended(CELLS[1], OUTCOME)
    said = out.getvalue()
    assert "sweep" in said
    assert "2/2 cells; plain, seed 1: 0.9877" in said
    assert re.search(r"done.* 2/2 cells", said)


def test_a_finished_cell_in_words_and_the_time_left():
    assert cell_text(CELLS[1], OUTCOME) == "plain, seed 1: 0.9877 in 12.3 s"
    out = io.StringIO()
    SweepLines(Console(file=out, width=80), CELLS).cell_ended(CELLS[0], OUTCOME)
    assert out.getvalue().endswith("  -:-- left\n")
