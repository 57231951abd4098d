"""Serves the page of one run, or of several side by side: each run below 1/, 2/ and so on."""

from __future__ import annotations

import asyncio
import signal
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from node.net.incoming.listening import BACKLOG, endpoint_of, listen
from node.observe.access import Access
from node.observe.comparison import Comparison
from node.observe.page import Page
from node.observe.run_folder import MODEL, RunFolder, found_runs


def serve(paths: Sequence[Path], endpoint: str, *, open_browser: bool) -> None:
    """Serves until SIGINT or SIGTERM. Raises ConfigError for a folder that holds no run."""
    runs = [RunFolder(path) for path in found_runs(paths)]
    for run in runs:
        run.read()  # says at once what is damaged
    with listen(endpoint) as listener:
        url = f"http://{endpoint_of(listener, None)}/"
        asyncio.run(_serve(runs, listener, url, open_browser=open_browser))


async def _serve(runs: Sequence[RunFolder], listener: socket.socket, url: str, *, open_browser: bool) -> None:
    access = Access(host="127.0.0.1", token=None, url=url)
    pages = [Page(run, access, run.path / MODEL) for run in runs]
    first = pages[0] if len(runs) == 1 else Page(Comparison(runs), access)
    app = web.Application()
    app.add_routes(first.routes)
    for place, page in enumerate(pages, 1):
        below = web.Application()
        below.add_routes(page.routes)
        app.add_subapp(f"/{place}", below)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=BACKLOG).start()
    for run in runs:
        print(f"run: {run.path}", flush=True)
    print(f"page: {url}\nCtrl-C ends it", flush=True)
    if open_browser:
        await asyncio.to_thread(webbrowser.open, url)
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    await asyncio.gather(*(page.close() for page in {first, *pages}))
    await runner.cleanup()
