"""Commands that go on and ask their owner: invite, join, start and members, a process each.

The page is their terminal: it shows their lines, and answers their questions. What they keep is in the run's
folder, so they may be ended at any time, and `start` goes on.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import pty
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from node.desk.command_line import CommandLine
from node.system.errors import ConfigError

MOST_RUNNING = 8
MOST_ENDED = 32
"""The most commands that have ended and are still shown."""
MOST_LINES = 400
ENDING_S = 40.0
"""How long a node may take to end its round, as its --drain-timeout says, and a little more."""
_WIDEST = 2000
_ASKS = " [y/N] "


@dataclass(frozen=True)
class Talk:
    """A command as it is now. `question` waits for an answer; `status` is None while the command goes on.

    `folder` is the run's, below the desk's folder, as far as it is known.
    """

    number: int
    name: str
    command: str
    folder: str
    room: str
    lines: tuple[str, ...] = ()
    question: str = ""
    status: int | None = None


@dataclass
class _Running:
    line: CommandLine
    process: asyncio.subprocess.Process
    terminal: int
    lines: list[str] = field(default_factory=list)
    rest: str = ""
    reading: asyncio.Task[None] | None = None

    @property
    def status(self) -> int | None:
        """Its exit status, once all that it printed is read."""
        return self.process.returncode if self.reading is None or self.reading.done() else None

    @property
    def question(self) -> str:
        return self.rest.removesuffix(_ASKS) if self.rest.endswith(_ASKS) else ""

    def hear(self, text: str) -> None:
        """Takes what the command printed apart into lines."""
        *whole, rest = (self.rest + text).split("\n")
        self.lines += [line[:_WIDEST] for line in whole]
        self.rest = rest[-_WIDEST:]
        del self.lines[:-MOST_LINES]


class Talks:
    """The commands that this desk started, by number."""

    def __init__(self, folder: Path) -> None:
        """`folder`: where they run."""
        self._folder = folder
        self._started: dict[int, _Running] = {}
        self._beginning = asyncio.Lock()

    @property
    def talks(self) -> tuple[Talk, ...]:
        """All of them, the latest last."""
        return tuple(self._talk(number, running) for number, running in self._started.items())

    async def begin(self, line: CommandLine) -> Talk:
        """Starts a command. Raises ConfigError if it runs already, or too many do."""
        async with self._beginning:
            return await self._begin(line)

    async def _begin(self, line: CommandLine) -> Talk:
        going = [talk for talk in self.talks if talk.status is None]
        ended = [talk.number for talk in self.talks if talk.status is not None]
        if len(going) >= MOST_RUNNING:
            raise ConfigError(f"{len(going)} commands run already; allowed: at most {MOST_RUNNING}")
        if any(talk.command == line.command for talk in going):
            raise ConfigError(f"{line.command} runs already: look at its swarm")
        number = max(self._started, default=0) + 1
        for forgotten in ended[:-MOST_ENDED]:
            del self._started[forgotten]
        running = self._started[number] = await self._start(line)
        running.reading = asyncio.create_task(_read(running))
        return self._talk(number, running)

    def answer(self, number: int, question: str, *, yes: bool) -> None:
        """Answers the question that a command asks. Raises ConfigError if it asks another one or none."""
        running = self._running(number)
        if not question or running.question != question:
            raise ConfigError("this question is not asked any more: look at the swarm again")
        running.hear(f"{'yes' if yes else 'no'}\n")
        os.write(running.terminal, b"y\n" if yes else b"n\n")

    def end(self, number: int) -> None:
        """Tells a command to end; a node ends its round first. Raises ConfigError."""
        running = self._running(number)
        with suppress(ProcessLookupError):
            running.process.send_signal(signal.SIGTERM)

    async def close(self, limit_s: float = ENDING_S) -> None:
        """Ends all commands; kills those that take longer than `limit_s`."""
        running = [one for one in self._started.values() if one.process.returncode is None]
        for one in running:
            with suppress(ProcessLookupError):
                one.process.send_signal(signal.SIGTERM)
        ends = [asyncio.create_task(one.process.wait()) for one in running]
        if ends:
            await asyncio.wait(ends, timeout=limit_s)
        for one in running:
            if one.process.returncode is None:
                one.process.kill()
        reading = [one.reading for one in self._started.values() if one.reading is not None]
        if reading:
            await asyncio.wait(reading)

    async def _start(self, line: CommandLine) -> _Running:
        terminal, theirs = pty.openpty()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", line.package, *line.argv),
                stdin=theirs,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C is for the desk, which then ends them in order
            )
        except OSError:
            os.close(terminal)
            raise
        finally:
            os.close(theirs)
        return _Running(line, process, terminal)

    def _running(self, number: int) -> _Running:
        running = self._started.get(number)
        if running is None or running.process.returncode is not None:
            raise ConfigError("this command has ended: look at the swarm again")
        return running

    def _talk(self, number: int, running: _Running) -> Talk:
        line, status = running.line, running.status
        asks = running.question if status is None else ""
        lines = (*running.lines, *([running.rest] if running.rest and not asks else []))
        return Talk(number, line.name, line.command, line.folder, line.room, lines, asks, status)


async def _read(running: _Running) -> None:
    """Reads what a command prints until it ends."""
    stream = running.process.stdout
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while stream is not None and (data := await stream.read(1 << 14)):
            running.hear(decoder.decode(data))
        await running.process.wait()
    finally:
        os.close(running.terminal)


def talk_of(talks: Sequence[Talk], folder: str) -> Talk | None:
    """Returns the latest command about a folder, one that goes on before all others."""
    about = [talk for talk in talks if talk.folder == folder]
    return max(about, key=lambda talk: (talk.status is None, talk.number), default=None)
