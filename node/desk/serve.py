"""Serves the page of a folder to its owner, on this machine alone.

/              the page, the same for everybody
/page/NAME     its parts that a node's page has, too
/desk/NAME     its own parts
/run/NAME/     the page of a run
/v1/desk       swarms, tasks, data and the last piece of work
/v1/rows       the first rows of a file
/v1/task       a task, line by line
/v1/swarm      a swarm: its seats or members, its rounds, and the command that goes on for it
/v1/statistics the report of a swarm's statistics, a file to save
/v1/words      the words of codes
/v1/STEP       POST begins a step (node.desk.steps) or a command that goes on (node.desk.invitations), answers
               what one asks, ends one, or replaces a line of a task

Whoever has the token may do all that its owner can do in the folder by the commands, and nothing outside it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib import resources
from pathlib import Path

from aiohttp import web

from node.desk.first_rows import first_rows
from node.desk.folder import Folder
from node.desk.form import MOST_BYTES, Form, Garbage, read_form
from node.desk.invitations import LINES, kept_habits
from node.desk.runs import Runs
from node.desk.statistics import REPORT
from node.desk.steps import STEPS
from node.desk.swarm_views import folder_of_room
from node.desk.talks import ENDING_S, Talk, Talks, talk_of
from node.desk.task_lines import replaced
from node.desk.views import files_view, task_text, task_view
from node.desk.work import Busy, Values, Worker
from node.net.incoming.listening import BACKLOG, endpoint_of, listen
from node.observe.access import Access, new_token
from node.observe.download import send_file
from node.observe.page import HEADERS, KINDS, PARTS, asset, framed
from node.observe.views import as_json
from node.storage.whole_files import ANYBODYS, replace_file
from node.system.errors import ConfigError, UserError, counted
from protocol.invitation.word_list import WORDS

FRONT = "desk.html"
OWN_PARTS = (
    "desk.css",
    "desk.js",
    "ask.js",
    "start.js",
    "data.js",
    "task.js",
    "fields.js",
    "invite.js",
    "join.js",
    "swarm.js",
)
SHOWN_ROWS = 5


class Desk:
    """The routes of one folder's page. The state of the work is the worker's; all else is on the disk."""

    def __init__(self, folder: Folder, access: Access, *, debug: bool = False) -> None:
        """`access` has a token: the page changes files. `debug`: print the tracebacks of errors."""
        self._folder = folder
        self._access = access
        self._worker = Worker(debug=debug)
        self._runs = Runs(folder, access)
        self._talks = Talks(folder.path)
        self._replacing = asyncio.Lock()

    @property
    def routes(self) -> list[web.RouteDef]:
        """All routes."""
        return [
            web.get("/", self._front),
            web.get("/page/{name}", self._part),
            web.get("/desk/{name}", self._own_part),
            web.get("/v1/desk", self._get(self._overview)),
            web.get("/v1/rows", self._get(self._rows)),
            web.get("/v1/task", self._get(self._task)),
            web.get("/v1/swarm", self._get(self._swarm)),
            web.get("/v1/statistics", self._statistics),
            web.get("/v1/words", self._get(self._words)),
            web.post("/v1/replace", self._post(self._replace)),
            web.post("/v1/answer", self._post(self._answer)),
            web.post("/v1/end", self._post(self._end)),
            *(web.post(f"/v1/{name}", self._post(self._talk(name))) for name in LINES),
            *(web.post(f"/v1/{name}", self._post(self._begin(name))) for name in STEPS),
            *self._runs.routes,
        ]

    @property
    def going(self) -> int:
        """How many commands go on."""
        return sum(talk.status is None for talk in self._talks.talks)

    async def close(self, limit_s: float = ENDING_S) -> None:
        """Ends the commands that go on, within `limit_s`, and the pages of the runs."""
        await self._talks.close(limit_s)
        await self._runs.close()

    # -- parts ---------------------------------------------------------------------------------------------

    async def _front(self, request: web.Request) -> web.Response:
        self._access.check_address(request)
        return _file(FRONT, own_asset(FRONT))

    async def _part(self, request: web.Request) -> web.Response:
        self._access.check_address(request)
        name = request.match_info["name"]
        if name not in PARTS:
            raise web.HTTPNotFound
        return _file(name, asset(name))

    async def _own_part(self, request: web.Request) -> web.Response:
        self._access.check_address(request)
        name = request.match_info["name"]
        if name not in OWN_PARTS:
            raise web.HTTPNotFound
        return _file(name, own_asset(name))

    # -- who may ask ---------------------------------------------------------------------------------------

    def _get(self, show: Callable[[web.Request], Awaitable[Values]]) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            self._access.check(request)
            return await _answered(show(request))

        return handle

    def _post(self, do: Callable[[Form], Awaitable[Values]]) -> _Handler:
        """Asks for more than a GET: a browser names where a POST comes from, and it must be this page."""

        async def handle(request: web.Request) -> web.Response:
            self._access.check(request)
            if request.headers.get("Origin") != f"http://{request.headers.get('Host', '')}":
                raise web.HTTPForbidden(text="asked by the page of another site\n")
            if request.content_type != "application/json":
                raise web.HTTPUnsupportedMediaType(text="allowed: application/json\n")
            body = await request.read()  # 413 beyond MOST_BYTES
            return await _answered(self._done(do, body))

        return handle

    async def _done(self, do: Callable[[Form], Awaitable[Values]], body: bytes) -> Values:
        return await do(read_form(body))

    # -- what is shown -------------------------------------------------------------------------------------

    async def _overview(self, request: web.Request) -> Values:
        if "work" in request.query:
            return {"work": self._work()}
        swarms, files = await asyncio.to_thread(lambda: (self._runs.read(), files_view(self._folder)))
        going = await self._told_talks()
        for swarm in swarms:
            talk = talk_of(going, str(swarm["folder"]))
            swarm["goes_on"] = talk is not None and talk.status is None
        return {**files, "swarms": swarms, "work": self._work(), "habits": asdict(kept_habits(self._folder))}

    async def _rows(self, request: web.Request) -> Values:
        path = self._folder.inside(request.query.get("file", ""), "data")
        return asdict(await asyncio.to_thread(first_rows, self._folder.path / path, SHOWN_ROWS))

    async def _task(self, request: web.Request) -> Values:
        path = self._folder.inside(request.query.get("file", ""), "task")
        return await asyncio.to_thread(self._shown_task, path)

    def _shown_task(self, path: Path) -> dict[str, object]:
        return task_view(str(path), task_text(self._folder.path / path))

    async def _swarm(self, request: web.Request) -> Values:
        """Shows a swarm by its folder, or by the number of a command, whose folder may not be known yet."""
        talks = await self._told_talks()
        number = request.query.get("talk", "")
        if number:
            talk = next((one for one in talks if str(one.number) == number), None)
            if talk is None:
                raise ConfigError(
                    "this command was started by an earlier desk: choose the swarm from the list"
                )
            run = talk.folder
            talk = talk_of(talks, run) if run else talk  # a later one goes on for its swarm
        else:
            run = str(self._folder.inside(request.query.get("run", ""), "run"))
            talk = talk_of(talks, run)
        shown = await asyncio.to_thread(self._runs.swarm, run) if run else {"folder": "", "line": None}
        return {**shown, "talk": None if talk is None else asdict(talk)}

    async def _statistics(self, request: web.Request) -> web.StreamResponse:
        self._access.check(request)
        try:
            run = await asyncio.to_thread(self._folder.inside, request.query.get("run", ""), "run")
        except ConfigError as error:
            return _json(422, {"error": str(error)})
        path = self._folder.path / run / REPORT
        if not path.is_file() or path.is_symlink():
            return _json(422, {"error": f"{run} has no report of statistics yet: look at the swarm again"})
        named = {"Content-Disposition": f'attachment; filename="{path.name}"'}
        return await send_file(request, path, {**HEADERS, "Cache-Control": "no-store", **named})

    async def _words(self, request: web.Request) -> Values:
        return {"words": WORDS}

    async def _told_talks(self) -> list[Talk]:
        """Returns the commands with their folders, as far as these are there by now."""
        return await asyncio.to_thread(self._with_folders, self._talks.talks)

    def _with_folders(self, talks: Sequence[Talk]) -> list[Talk]:
        known = [
            replace(talk, folder=folder_of_room(self._folder.path, talk.room)) if talk.room else talk
            for talk in talks
        ]
        return [
            talk if (self._folder.path / talk.folder).is_dir() else replace(talk, folder="") for talk in known
        ]

    # -- what is done --------------------------------------------------------------------------------------

    def _begin(self, name: str) -> Callable[[Form], Awaitable[Values]]:
        async def begin(form: Form) -> Values:
            step = await asyncio.to_thread(STEPS[name], self._folder, form)
            self._worker.begin(step)
            return {"work": self._work()}

        return begin

    def _talk(self, name: str) -> Callable[[Form], Awaitable[Values]]:
        async def begin(form: Form) -> Values:
            line = await asyncio.to_thread(LINES[name], self._folder, form)
            return {"talk": asdict(await self._talks.begin(line))}

        return begin

    async def _answer(self, form: Form) -> Values:
        self._talks.answer(form.whole("talk"), form.exact("question"), yes=form.flag("yes"))
        return {}

    async def _end(self, form: Form) -> Values:
        self._talks.end(form.whole("talk"))
        return {}

    async def _replace(self, form: Form) -> Values:
        path = self._folder.inside(form.text("file"), "task")
        if path.suffix != ".toml" or len(path.parts) > 1:  # the task of a swarm is signed
            raise Garbage("file is refused; allowed: NAME.toml, a task in the folder of this page")
        number, old, given = form.whole("line"), form.exact("old"), form.table("values")
        async with self._replacing:
            return await asyncio.to_thread(self._replace_line, path, number, old, given)

    def _replace_line(self, path: Path, number: int, old: str, given: dict[str, str] | None) -> Values:
        whole = self._folder.path / path
        text = replaced(task_text(whole), number, old, given)
        replace_file(whole, (text.encode(),), durable=False, mode=ANYBODYS)
        return task_view(str(path), text)

    def _work(self) -> Values | None:
        work = self._worker.work
        return None if work is None else asdict(work)


_Handler = Callable[[web.Request], Awaitable[web.Response]]


async def _answered(answer: Awaitable[Values]) -> web.Response:
    """Returns the answer as JSON; an error of the user is one line in it."""
    try:
        return _json(200, await answer)
    except Busy as error:
        return _json(409, {"error": str(error)})
    except Garbage as error:
        return _json(400, {"error": str(error)})
    except UserError as error:
        return _json(422, {"error": str(error)})


def _json(status: int, values: Values) -> web.Response:
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return web.Response(text=as_json(values), status=status, content_type="application/json", headers=headers)


def _file(name: str, content: bytes) -> web.Response:
    kind = KINDS[name.rpartition(".")[2]]
    headers = {**HEADERS, "Cache-Control": "no-cache", "Content-Type": f"{kind}; charset=utf-8"}
    return web.Response(body=content, headers=headers)


@cache
def own_asset(name: str) -> bytes:
    """Returns the content of FRONT or of one of OWN_PARTS."""
    content = resources.files("node.desk").joinpath("assets", name).read_bytes()
    return framed(content) if name == FRONT else content


def desk_app(desk: Desk) -> web.Application:
    """Returns the application; a body has at most MOST_BYTES."""
    app = web.Application(client_max_size=MOST_BYTES)
    app.add_routes(desk.routes)
    return app


def serve(folder: Path, endpoint: str, *, debug: bool) -> None:
    """Serves the page of a folder until SIGINT or SIGTERM. Raises UserError if it cannot listen."""
    with listen(endpoint) as listener:
        asyncio.run(_serve(folder, listener, debug=debug))


async def _serve(folder: Path, listener: socket.socket, *, debug: bool) -> None:
    access = Access("127.0.0.1", new_token(), f"http://{endpoint_of(listener, None)}/")
    desk = Desk(Folder(folder), access, debug=debug)
    runner = web.AppRunner(desk_app(desk), handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=BACKLOG).start()
    print(
        f"open this address in a browser: {access.shown(None, on_terminal=True)}\nCtrl-C ends it", flush=True
    )
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    await _end(desk, told)
    await runner.cleanup()


async def _end(desk: Desk, told: asyncio.Event) -> None:
    """Ends what the desk started: nodes end their round first, unless the owner says it again."""
    told.clear()
    if desk.going:
        print(f"ending {counted(desk.going, 'command')}; Ctrl-C again ends all at once", flush=True)
    closing, again = asyncio.create_task(desk.close()), asyncio.create_task(told.wait())
    await asyncio.wait((closing, again), return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if not closing.done():
        await desk.close(0.0)
    await closing
