"""Sends a file to a watcher of the page, piece by piece, within the handler of its request.

Until the last piece the connection counts as one that watches the page (node.net.incoming.doors): a large
model may take longer than any other answer. A reader that does not read is disconnected (node.observe.sse).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from node.net.incoming.doors import guest_of
from node.observe.sse import write

PIECE_BYTES = 1 << 18


async def send_file(request: web.Request, path: Path, headers: Mapping[str, str]) -> web.StreamResponse:
    """Sends the file as it is when it is opened, though it may be replaced meanwhile. Raises 404."""
    guest = guest_of(request)
    if guest is not None:
        guest.watch()
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except FileNotFoundError:
        raise web.HTTPNotFound(text="there is no model yet: it is written after the first round\n") from None
    with file:
        response = web.StreamResponse(headers={**headers, "Content-Type": "application/octet-stream"})
        response.content_length = os.fstat(file.fileno()).st_size
        with suppress(ConnectionError):
            await response.prepare(request)
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                await write(request, response, piece)
        return response
