"""Work for child processes: the lines of rounds that a child prints are read back."""

from pathlib import Path

from scenarios.frame.work import round_line, rounds_said


def test_a_round_s_line_is_read_back_to_the_bit(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert rounds_said(log) == []
    log.write_text("".join(f"{round_line(number, figure)}\n" for number, figure in ((1, 1 / 3), (2, 1e-30))))
    assert rounds_said(log) == [(1, 1 / 3), (2, 1e-30)]
