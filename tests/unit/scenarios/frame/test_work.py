"""Calls: the lines of rounds that a child prints are read back, and each piece of news is told once."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from node.system.errors import UserError
from scenarios.frame.work import Call, Look, Say, do_here, print_round, round_line, rounds_said


@dataclass(frozen=True)
class Sum:
    total: float


class Told:
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.news: list[tuple[str, int, float] | str] = []

    def round_ended(self, call: Call, round: int, figure: float) -> None:
        self.news.append((call.name, round, figure))

    def call_ended(self, call: Call) -> None:
        self.news.append(f"{call.name} ended")


def added(numbers: tuple[float, ...], say: Say) -> Sum:
    for place in range(1, len(numbers) + 1):
        say(place, sum(numbers[:place]))
    return Sum(sum(numbers))


def call(folder: Path, name: str, *numbers: object) -> Call:
    return Call(name, f"{__name__}:added", (numbers,), len(numbers), folder / "sums" / f"{name}.json")


def test_a_round_s_line_is_read_back_to_the_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    assert rounds_said(log) == []
    for number, figure in ((1, 1 / 3), (2, 1e-30)):
        print_round(number, figure)
    log.write_text(capsys.readouterr().out)
    assert rounds_said(log) == [(1, 1 / 3), (2, 1e-30)]


def test_news_are_told_once_and_the_end_last(tmp_path: Path) -> None:
    told, one = Told(), call(tmp_path, "one", 1.0, 2.0)
    look = Look([one], told)
    one.log.parent.mkdir(parents=True)
    look()
    assert told.news == []
    one.log.write_text(round_line(1, 1.0) + "\n" + "round 2: 3.")
    look()
    look()
    assert told.news == [("one", 1, 1.0)]
    one.log.write_text(round_line(1, 1.0) + "\nsaid by a model\n" + round_line(2, 3.0) + "\n")
    one.keep(Sum(3.0))
    look()
    look()
    assert told.news == [("one", 1, 1.0), ("one", 2, 3.0), "one ended"]


def test_what_is_done_stays_when_a_call_fails_in_one_line_with_a_log(tmp_path: Path) -> None:
    told, one, wrong = Told(), call(tmp_path, "one", 1.0, 2.0), call(tmp_path, "wrong", 1.0, "x")
    with pytest.raises(UserError, match=r"^wrong: unsupported operand .* \(log: .*wrong\.log\)$"):
        do_here([one, wrong, call(tmp_path, "never", 1.0)], told)
    assert told.news == [("one", 1, 1.0), ("one", 2, 3.0), "one ended", ("wrong", 1, 1.0)]
    assert one.path.read_text() == '{\n  "total": 3.0\n}\n'
    assert "Traceback" in wrong.log.read_text()
    assert {path.name for path in one.path.parent.iterdir()} == {"one.json", "wrong.log"}
