"""Questions to the owner at a terminal, while the network goes on."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from functools import partial

from node.system.errors import ConfigError


@dataclass(frozen=True)
class Terminal:
    """Where the owner answers. `yes`: each question is answered by yes."""

    yes: bool

    def check(self) -> None:
        """Raises ConfigError if nobody could answer a question."""
        if not self.yes and not sys.stdin.isatty():
            raise ConfigError(
                "there is no terminal to ask at; give --yes, which answers each question by yes"
            )

    def say(self, *lines: str) -> None:
        """Prints lines."""
        print("\n".join(lines), flush=True)

    async def line(self) -> str:
        """Waits for a line that the owner types, in lower case; for ever where nobody is asked."""
        if self.yes:
            await asyncio.get_running_loop().create_future()
        return (await _line()).strip().lower()

    async def ask(self, question: str) -> bool:
        """Asks a question; anything but y or yes is a no."""
        print(f"{question} [y/N] ", end="yes\n" if self.yes else "", flush=True)
        return self.yes or await self.line() in {"y", "yes"}


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _line() -> str:
    """The next line of standard input; empty at its end. No thread waits for it, so Ctrl-C ends it."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), partial(_settle, ready))
    try:
        await ready
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()
