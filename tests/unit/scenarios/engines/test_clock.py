"""The clock of a cell: one time a round, in order, whatever was said."""

from scenarios.engines.clock import Say, clocked
from scenarios.study.cells import Outcome


def clock_of(*said: int, rounds: int = 4) -> tuple[Outcome, list[tuple[int, float]]]:
    heard: list[tuple[int, float]] = []

    def run(say: Say) -> Outcome:
        for number in said:
            say(number, number / 10)
        return Outcome((0.5,) * rounds, {"epsilon": None}, 1.0)

    return clocked(run, lambda number, figure: heard.append((number, figure))), heard


def test_each_round_has_its_own_time_or_that_of_the_next_that_was_said():
    outcome, heard = clock_of(1, 2, 3, 4)
    assert heard == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert 0 <= outcome.clock[0] < outcome.clock[1] < outcome.clock[2] < outcome.clock[3]
    assert (outcome.figures, outcome.facts) == ((0.5,) * 4, {"epsilon": None})
    first, second, third, fourth = clock_of(2, 3)[0].clock
    assert first == second < third < fourth
    (only,) = set(clock_of()[0].clock)
    assert only >= 0
