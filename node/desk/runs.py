"""The runs in the folder, each followed as its files grow, with the page that a node has."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from node.desk.folder import Folder
from node.desk.statistics import statistics_view
from node.desk.swarm_views import membership_view, standing_of
from node.desk.views import standing_line, swarm_view, unreadable_view
from node.observe.access import Access
from node.observe.page import Page
from node.observe.run_folder import MODEL, RunFolder, has_run
from node.system.errors import UserError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PATHS = ("/", "/page/{name}", "/v1/status", "/v1/events", "/v1/model")
"""The paths of a node's page that a run's page has. Figures of the owner's rows need the node itself."""


class Runs:
    """Keeps what was read of each run, and its page."""

    def __init__(self, folder: Folder, access: Access) -> None:
        self._folder = folder
        self._access = access
        self._runs: dict[str, RunFolder] = {}
        self._pages: dict[str, Page] = {}

    def read(self) -> list[dict[str, object]]:
        """Returns a line about each run in the folder. It reads files, so it belongs into a thread."""
        names = self._folder.runs()
        for gone in set(self._runs) - set(names):
            self._runs.pop(gone, None)
        return [self._line(name) for name in names]

    @property
    def routes(self) -> list[web.RouteDef]:
        """The routes of all runs: /run/NAME/ is the page of the run in the folder NAME."""
        return [web.get("/run/{run}" + path, self._handler(path)) for path in PATHS]

    async def close(self) -> None:
        """Ends all pages."""
        for page in self._pages.values():
            await page.close()

    def swarm(self, name: str) -> dict[str, object]:
        """Returns all about the swarm in a folder. It reads files, so it belongs into a thread."""
        path = self._folder.path / name
        is_swarm = has_run(path) or standing_of(path)  # else there is no more than a key
        line = self._line(name) if is_swarm else None
        view = self._runs[name].read() if line is not None and line["state"] == "runs" else None
        members = membership_view(path, view, time.time())
        return {"folder": name, "line": line, "statistics": statistics_view(path, name), **members}

    def _line(self, name: str) -> dict[str, object]:
        path = self._folder.path / name
        if not has_run(path) and (standing := standing_of(path)):
            return standing_line(name, standing)
        try:
            return swarm_view(name, self._runs.setdefault(name, self._opened(name)).read())
        except UserError as error:
            return unreadable_view(name, str(error))

    def _opened(self, name: str) -> RunFolder:
        return RunFolder(self._folder.path / name)

    def _handler(self, path: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._access.check_address(request)
            return await self._handlers(request.match_info["run"])[path](request)

        return handle

    def _handlers(self, name: str) -> Mapping[str, Handler]:
        """Returns the handlers of a run's page by path. Raises 404 if the folder has no such run."""
        if name not in self._pages:
            if name not in self._folder.runs():
                raise web.HTTPNotFound(text="there is no such run in this folder\n")
            run = self._opened(name)
            self._pages[name] = Page(run, self._access, run.path / MODEL)
        return {route.path: route.handler for route in self._pages[name].routes}
