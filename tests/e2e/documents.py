"""The commands in a document, and a folder that runs them as a reader would.

Differences from the reader's machine: each machine is an address of loopback with free ports; a run has one
round; and if a document shows only one member of a swarm, the missing members are started too, with their own
data and keys.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.e2e.processes import ROOT, Nursery, Process, free_endpoint

SHELLS = {"", "sh", "console"}
FIRST_WORDS = {"python", "python3", "make", ".venv/bin/python"}
MACHINES = {"10.0.0.5": "127.0.0.2", "10.0.0.7": "127.0.0.3", "127.0.0.1": "127.0.0.1"}
PARTIES = "abc"
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ENDPOINT = re.compile(r"(?<![\d.])(\d+\.\d+\.\d+\.\d+):(\d+)")
_COLUMNS = 12


@dataclass(frozen=True)
class Command:
    """One command line of a document; the first of its `words` is a program."""

    document: str
    line: int
    words: tuple[str, ...]

    @property
    def module(self) -> str | None:
        """The module that `python -m` names."""
        is_python = self.words[0] in {"python", ".venv/bin/python"}
        return self.words[2] if is_python and self.words[1:2] == ("-m",) else None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {shlex.join(self.words)}"

    def value(self, option: str) -> str | None:
        words = list(self.words)
        return words[words.index(option) + 1] if option in words else None


def fences(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields (line, language, content) of each fenced block."""
    for match in _FENCE.finditer(text):
        yield text[: match.start(2)].count("\n") + 1, match[1], match[2]


def commands_of(document: Path) -> list[Command]:
    """Returns the lines of all shell blocks.

    A block without a language is one if it begins with a program's name.
    """
    found = []
    name = str(document.relative_to(ROOT)) if document.is_relative_to(ROOT) else document.name
    for line, language, content in fences(document.read_text("utf-8")):
        lines = content.replace("\\\n", "  ").splitlines()
        first = lines[0].removeprefix("$ ").split(" ")[0] if lines else ""
        if language not in SHELLS or (not language and first not in FIRST_WORDS):
            continue
        for offset, written in enumerate(lines):
            words = shlex.split(written.removeprefix("$ "), comments=True)
            if words:
                found.append(Command(name, line + offset, tuple(words)))
    return found


def task_in(document: Path) -> str | None:
    """Returns the first TOML block that is a complete task."""
    blocks = (content for _, language, content in fences(document.read_text("utf-8")) if language == "toml")
    return next((block for block in blocks if {"task", "model"} <= tomllib.loads(block).keys()), None)


@dataclass
class Workshop:
    """The folder for a document's commands, and the processes that they started."""

    folder: Path
    nursery: Nursery
    keys: list[str] = field(default_factory=list)
    trackers: list[Process] = field(default_factory=list)
    swarms: int = 0
    _tracker_key: str = ""
    _endpoints: dict[str, str] = field(default_factory=dict)

    def furnish(self, task: str | None) -> None:
        """Creates the files that the reader has: a table for each member, and the document's task file."""
        for seed, name in enumerate([*PARTIES, "mine"]):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=(200, _COLUMNS)).round(3)
            rows = [",".join(map(str, [*row, int(sum(row) > 0)])) for row in x.tolist()]
            header = ",".join([*(f"m{column}" for column in range(_COLUMNS)), "outcome"])
            (self.folder / f"{name}.csv").write_text("\n".join([header, *rows, ""]))
        if task is not None:
            (self.folder / "ward.toml").write_text(task)

    def run(self, commands: Iterable[Command]) -> None:
        """Runs all commands in order, and the nodes of one swarm at the same time."""
        waiting: list[Command] = []
        for command in commands:
            if waiting and not _together(waiting[-1], command):
                self._swarm(waiting)
                waiting = []
            if command.module == "node":
                waiting.append(command)
            else:
                self._one(command)
        if waiting:
            self._swarm(waiting)
        for tracker in self.trackers:
            tracker.kill()

    # -- one command -------------------------------------------------------------------------------

    def _one(self, command: Command) -> None:
        assert command.module is not None, f"{command}: only `python -m` is run"
        self._let_in(command.value("--allow"))
        process = self._start(command.module, list(command.words[3:]))
        if command.module == "node.tracker":
            self._tracker_key = process.line("tracker ").split()[1]
            self.trackers.append(process)
            return
        assert process.status() == 0, f"{command}\n{process.told()}"
        process.out.join()
        if command.module == "node.key":
            self.keys.append(process.out.all()[-1])

    def _start(self, module: str, argv: list[str]) -> Process:
        named = [word.replace("KEY@", f"{self._tracker_key}@") for word in argv]
        here = [_ENDPOINT.sub(self._here, word) for word in named]
        main = "node.__main__" if module == "node" else module
        return self.nursery.command(main, here, self.folder)

    def _here(self, match: re.Match[str]) -> str:
        written = match[0]
        if written not in self._endpoints:
            self._endpoints[written] = free_endpoint(MACHINES[match[1]])
        return self._endpoints[written]

    # -- a swarm -----------------------------------------------------------------------------------

    def _swarm(self, shown: list[Command]) -> None:
        """Starts all members of a swarm, also those not shown; checks that they end well with one model."""
        self.swarms += 1
        members = [list(command.words[3:]) for command in shown]
        for number in range(len(members), len(PARTIES)):
            members.append(self._another(members[0], number))
        if len(shown) < len(PARTIES):
            members[0] = self._another(members[0], 0)
        self._let_in(shown[0].value("--allow"))
        nodes = [self._start("node", [*member, "--rounds", "1", "--json"]) for member in members]
        ended = [node.ends_well() for node in nodes]
        told = "\n".join(map(str, shown))
        assert [end["aggregated"] for end in ended] == [1] * len(PARTIES), told
        assert len({end["base_digest"] for end in ended}) == 1, told

    def _another(self, member: list[str], number: int) -> list[str]:
        """Returns the command as another member would type it."""
        party = PARTIES[number]
        changed = {
            "--shard": f"{number}/{len(PARTIES)}",
            "--data": f"{party}.csv",
            "--out": f"runs/{self.swarms}-{party}",
            "--listen": f"10.0.0.5:{9101 + 10 * self.swarms + number}",
        }
        words = list(member)
        for option, value in changed.items():
            if option in words:
                words[words.index(option) + 1] = value
        if "--out" not in words:
            words += ["--out", changed["--out"]]
        return words if "--allow" not in words else [*words, "--key", f"runs/{party}/node.key"]

    def _let_in(self, allow: str | None) -> None:
        """Writes the list of keys that the text around the commands has everybody make."""
        if allow is None:
            return
        for party in PARTIES:
            path = f"runs/{party}/node.key"
            if not (self.folder / path).exists():
                self._one(Command("", 0, ("python", "-m", "node.key", path)))
        (self.folder / allow).write_text("\n".join([*self.keys, ""]))


def _together(one: Command, other: Command) -> bool:
    """Returns whether two successive commands are members of one swarm."""
    if other.module != "node" or one.value("--peers") != other.value("--peers"):
        return False
    return one.value("--peers") is not None and one.words != other.words and _task(one) == _task(other)


def _task(command: Command) -> tuple[str | None, str | None]:
    return command.value("--task"), command.value("--set")
