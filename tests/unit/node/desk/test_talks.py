"""Commands that go on: their lines are shown, their questions answered, and all end with the desk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from node.desk.command_line import CommandLine
from node.desk.talks import MOST_LINES, MOST_RUNNING, Talk, Talks, talk_of
from node.system.errors import ConfigError
from tests.patience import ENOUGH_S
from tests.unit.node.desk.asking import QUESTION

ROOT = Path(__file__).resolve().parents[4]


@dataclass(frozen=True)
class Asking(CommandLine):
    """A line that starts the command of these tests."""

    @property
    def package(self) -> str:
        """See CommandLine."""
        return "tests.unit.node.desk.asking"


def line(mode: str, folder: str = "") -> Asking:
    return Asking("join", [("", mode)], folder=folder)


@pytest.fixture
async def talks(tmp_path) -> AsyncIterator[Talks]:
    talks = Talks(tmp_path)
    yield talks
    await talks.close(0.0)


async def until(talks: Talks, number: int, when) -> Talk:
    """Waits until a talk is as `when` says."""
    async with asyncio.timeout(ENOUGH_S):
        while not when(talk := next(one for one in talks.talks if one.number == number)):  # noqa: ASYNC110
            await asyncio.sleep(0)
    return talk


@pytest.mark.parametrize(("yes", "answered", "status"), [(True, "y", 0), (False, "n", 1)])
async def test_a_question_is_shown_and_its_answer_reaches_the_command(talks, yes, answered, status):
    begun = await talks.begin(line("once", "runs/a"))
    assert (begun.command, begun.folder, begun.status) == ("murmuration join once", "runs/a", None)
    talk = await until(talks, begun.number, lambda talk: talk.question)
    assert (talk.question, talk.lines) == (QUESTION, ("ok       data: they fit", "Ward Ä invites you"))
    with pytest.raises(ConfigError, match="not asked any more"):
        talks.answer(talk.number, "Close the list and start?", yes=True)
    talks.answer(talk.number, QUESTION, yes=yes)
    with pytest.raises(ConfigError, match="not asked any more"):
        talks.answer(talk.number, QUESTION, yes=yes)
    talk = await until(talks, begun.number, lambda talk: talk.status is not None)
    said = "yes" if yes else "no"
    assert talk.lines[2:] == (f"{QUESTION} [y/N] {said}", f"answered: {answered}")
    assert (talk.status, talk.question) == (status, "")
    for does in (lambda: talks.answer(1, QUESTION, yes=True), lambda: talks.end(1), lambda: talks.end(7)):
        with pytest.raises(ConfigError, match="has ended"):
            does()


async def test_a_command_is_ended_when_its_owner_says_so(talks):
    begun = await talks.begin(line("stays"))
    await until(talks, begun.number, lambda talk: talk.question)
    talks.end(begun.number)
    assert (await until(talks, begun.number, lambda talk: talk.status is not None)).status < 0


async def test_the_same_command_runs_once_and_only_so_many_do(talks):
    await talks.begin(line("stays"))
    with pytest.raises(ConfigError, match="murmuration join stays runs already"):
        await talks.begin(line("stays"))
    for number in range(MOST_RUNNING - 1):
        await talks.begin(Asking("join", [("", "stays"), ("", str(number))]))
    with pytest.raises(ConfigError, match="8 commands run already"):
        await talks.begin(line("once"))


async def test_commands_that_are_begun_at_once_are_told_apart(talks):
    begun = await asyncio.gather(talks.begin(line("stays", "runs/a")), talks.begin(line("once", "runs/b")))
    assert {(talk.number, talk.folder) for talk in talks.talks} == {(1, "runs/a"), (2, "runs/b")}
    assert [talk.number for talk in begun] == [1, 2]
    found = await asyncio.gather(*(talks.begin(line("stays")) for _ in range(2)), return_exceptions=True)
    assert all(isinstance(error, ConfigError) for error in found)


async def test_of_those_that_have_ended_only_the_last_are_kept(talks, monkeypatch):
    monkeypatch.setattr("node.desk.talks.MOST_ENDED", 1)
    for number in (1, 2, 3):
        begun = await talks.begin(line("much"))
        assert begun.number == number
        await until(talks, number, lambda talk: talk.status is not None)
    assert [talk.number for talk in talks.talks] == [2, 3]


async def test_what_is_kept_of_its_lines_is_bounded(talks):
    begun = await talks.begin(line("much"))
    talk = await until(talks, begun.number, lambda talk: talk.status is not None)
    assert len(talk.lines) == MOST_LINES + 1
    assert talk.lines[-2] == "line 9999"
    assert len(talk.lines[-1]) == 2000


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_with_the_desk_all_commands_end_and_no_file_stays_open(tmp_path):
    before = open_files()
    talks = Talks(tmp_path)
    for mode in ("stays", "once"):
        begun = await talks.begin(line(mode))
        await until(talks, begun.number, lambda talk: talk.question)
    await talks.close(ENOUGH_S)
    assert all(talk.status is not None for talk in talks.talks)
    assert open_files() <= before


def test_a_folder_s_command_is_the_one_that_goes_on_or_else_the_last():
    one = Talk(1, "start", "", "runs/a", "", status=None)
    two = replace(one, number=2, name="members", status=0)
    three = replace(two, number=3, folder="runs/b")
    assert talk_of([one, two, three], "runs/a") == one
    assert talk_of([replace(one, status=1), two, three], "runs/a") == two
    assert talk_of([three], "runs/a") is None
