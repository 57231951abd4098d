"""The members of an invited swarm change while a node runs: what its owner writes down holds within a second.

`murmuration members` and `invite` write the swarm's file. The node looks at it, and tells its streams, its
machine and the names that its owner reads. A restart finds the same file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from node.net.relay.streams import RelayedStreams
from node.options import NodeOptions
from node.runtime.engine import Engine
from node.storage.nicknames import Nicknames
from node.storage.swarm_file import SWARM, Swarm, read_swarm
from node.storage.vouches import newcomers
from node.system.errors import ConfigError
from protocol.swarm.node_state import NO_VOUCHES, Vouches

LOOK_S = 1.0
_Stamp = tuple[int, int] | None


def vouches_of(swarm: Swarm | None, folder: Path | None) -> Vouches:
    """What the owner knows of later members; `folder` has the words for newcomers. Raises ConfigError."""
    if swarm is None:
        return NO_VOUCHES
    waiting = () if folder is None else newcomers(folder, swarm)
    return Vouches(swarm.roster.digest, (*swarm.roster.later, *waiting), swarm.removed)


@asynccontextmanager
async def following(
    options: NodeOptions, streams: RelayedStreams | None, engine: Engine, names: Nicknames
) -> AsyncIterator[None]:
    """Follows the swarm's file until the end of the context, if the node has one."""
    if options.swarm is None or options.swarm_folder is None or streams is None:
        yield
        return
    changing = _Changing(options.swarm, options.swarm_folder, streams, engine, names)
    task = asyncio.create_task(changing.follow(), name="the members' list")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Changing:
    def __init__(
        self, swarm: Swarm, folder: Path, streams: RelayedStreams, engine: Engine, names: Nicknames
    ) -> None:
        self._swarm, self._folder = swarm, folder
        self._streams, self._engine, self._names = streams, engine, names

    async def follow(self) -> None:
        """Looks at the file again and again."""
        seen: _Stamp = None
        while True:
            stamp = _stamp(self._folder / SWARM)
            if stamp not in (seen, None):
                await self._read()
            seen = stamp
            await asyncio.sleep(LOOK_S)

    async def _read(self) -> None:
        """Takes over what the file says now, if it is of the same list; else the members stay as they are."""
        try:
            swarm = read_swarm(self._folder)
            if swarm.roster.digest != self._swarm.roster.digest:
                raise ConfigError(f"{self._folder / SWARM} has another list: it holds from the next start")
            vouches = vouches_of(swarm, self._folder)
        except ConfigError as error:
            self._engine.warn(f"{error}; until then the members stay as they are")
            return
        if swarm == self._swarm:
            return
        self._swarm = swarm
        self._names.take(swarm.names)
        self._streams.change_members(swarm.roster.passes, swarm.removed)
        await self._engine.change_members(frozenset(swarm.learned_with), vouches)


def _stamp(path: Path) -> _Stamp:
    """What changes with a file that is replaced; None if it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
