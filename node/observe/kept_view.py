"""A node's view in its folder, `view.json`: the page opens from it when the node has ended.

The node replaces the file every few seconds, and a last time at its end. The rounds are not in it; they
stand in history.jsonl. `node.observe.run_folder` reads both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from node.observe.views import NodeView, as_json, document
from node.storage.whole_files import replace_file

EVERY_S = 5.0
VERSION = 1

log = logging.getLogger("murmuration.page")
log.addHandler(logging.NullHandler())


class NodeViews(Protocol):
    """The source of a node's views."""

    async def view(self) -> NodeView:
        """Returns the current view."""

    def now(self) -> float:
        """Returns Unix seconds."""


class KeptView:
    """Keeps a node's view.json up to date."""

    def __init__(self, source: NodeViews, path: Path) -> None:
        """`path`: the file."""
        self._source = source
        self._path = path

    @asynccontextmanager
    async def while_running(self) -> AsyncIterator[None]:
        """Writes the file now, and every EVERY_S seconds until the context ends."""
        await self.write()
        writing = asyncio.create_task(self._keep_writing())
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.wait((writing,))

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.write()

    async def write(self) -> None:
        """Writes the view as it is now. An error is logged: a node never ends because of its page."""
        try:
            view = await self._source.view()
            values = {"version": VERSION, "at": self._source.now(), **document(replace(view, history=()))}
            await asyncio.to_thread(replace_file, self._path, (as_json(values).encode(),), durable=False)
        except Exception:
            log.exception("the view cannot be kept")
