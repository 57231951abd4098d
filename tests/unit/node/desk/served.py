"""A desk over a real socket, in a thread of its own, and how its page asks it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from aiohttp import web

from node.desk.folder import Folder
from node.desk.serve import Desk, desk_app
from node.net.incoming.listening import BACKLOG, endpoint_of, listen
from node.observe.access import Access
from tests.patience import ENOUGH_S

TOKEN = "fe" * 32


class Served:
    """A desk for a folder, in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self._listener = listen("127.0.0.1:0")
        self.endpoint = endpoint_of(self._listener, None)
        self._desk = (Folder(folder), Access("127.0.0.1", TOKEN, f"http://{self.endpoint}/"))
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        self._started.wait(ENOUGH_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(ENOUGH_S)
        self._listener.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        desk = Desk(*self._desk)
        runner = web.AppRunner(desk_app(desk), shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, self._listener, backlog=BACKLOG).start()
        self._started.set()
        await self._over.wait()
        await desk.close()
        await runner.cleanup()

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str):
        host, _, port = self.endpoint.rpartition(":")
        named = {name.replace("_", "-"): value for name, value in headers.items() if value}
        with closing(http.client.HTTPConnection(host, int(port), timeout=ENOUGH_S)) as connection:
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()

    def get(self, path: str):
        status, _, body = self.ask(path, Authorization=f"Bearer {TOKEN}")
        return status, json.loads(body)

    def until(self, path: str, when: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Asks again and again until an answer is as `when` says; returns it."""
        between = threading.Event()
        while not when(found := self.get(path)[1]):
            between.wait(0.02)  # what is waited for needs the processor
        return found

    def post(self, path: str, form: object, **changed: str):
        body = form if isinstance(form, bytes) else json.dumps(form).encode()
        status, _, answer = self.ask(path, "POST", body, **{**self.owner, **changed})
        return status, answer

    @property
    def owner(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {TOKEN}",
            "Origin": f"http://{self.endpoint}",
            "Content_Type": "application/json",
        }
