"""The node's own server of the page, in a thread of its own, with made-up views."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from aiohttp import web

from node.net.incoming.listening import BACKLOG, endpoint_of, listen
from node.observe.access import Access
from node.observe.journal import Remark
from node.observe.page import Page
from node.observe.views import NodeView, Peer, Swarm, TrackerView, View, Visitor
from node.runtime.record.figures import Record
from node.runtime.record.own_figures import OwnBook
from node.training.figures.column_curves import Curve, CurveCell, Curves

START = 1_790_000_000.0
KEY = "5e" * 32
LEDGER: dict[str, object] = {
    "mechanism": "dp-sgd",
    "epsilon_spent": 1.25,
    "epsilon_budget": 4.0,
    "epsilon_remaining": 2.75,
    "epsilon_stated": 4.0,
    "delta": 1e-05,
    "accountant": "PLD",
    "unit": "one record (row) of a node's data, over the run",
    "neighbours": "add or remove",
    "norm": "L2",
    "outside": "",
    "protects": "what the offers tell about any one record is bounded by epsilon",
}


@dataclass
class MadeUp:
    """A source of views that returns `shown`. `looks`: how often it was asked."""

    shown: View
    ended: bool = False
    looks: int = 0

    async def view(self) -> View:
        """Return `shown`, ended if `ended` says so."""
        self.looks += 1
        return replace(self.shown, ended=self.ended)

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return time.time()


class Served:
    """A page, served at `url` while the context is entered.

    `token`: what a reader must know; None: nothing, as on loopback. `model`: the file that the owner may
    download, if any. `own`: figures on the owner's rows, if any.
    """

    def __init__(
        self,
        shown: View,
        token: str | None = None,
        model: Path | None = None,
        own: OwnBook | None = None,
    ) -> None:
        self.source = MadeUp(shown)
        self._listener = listen("127.0.0.1:0")
        self.endpoint = endpoint_of(self._listener, None)
        self.url = f"http://{self.endpoint}/"
        self._page = Page(self.source, Access("127.0.0.1", token, self.url), model, own)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._thread.join()
        self._listener.close()

    def show(self, shown: View) -> None:
        """Show another view from now on."""
        self.source.shown = shown

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return 0 if self._runner.server is None else len(self._runner.server.connections)

    def end(self) -> None:
        """End the page, as a run that is over does, and stop the server."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._page.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        app = web.Application()
        app.add_routes(self._page.routes)
        self._runner = runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, self._listener, backlog=BACKLOG).start()
        self._started.set()
        await self._over.wait()
        await runner.cleanup()


def rounds(count: int, first: int = 1) -> tuple[Record, ...]:
    """Return `count` rounds of a node that learns, from `first` on; in each ninth it stays on its own."""
    return tuple(_round(number) for number in range(first, first + count))


def _round(number: int) -> Record:
    learned = 1 - 1 / (1 + number / 8)
    alone = number % 9 == 0
    return Record(
        round=number,
        outcome="fallback" if alone else "aggregated",
        reason="shares-timeout" if alone else None,
        participants=0 if alone else 5,
        accuracy=0.1 + 0.85 * learned + 0.01 * (number % 3),
        loss=2.3 - 2 * learned + 0.02 * (number % 4),
        train_loss=2.1 - 2 * learned,
        epsilon=0.1 * number**0.5,
        bytes_sent=40_000 + number,
        bytes_received=41_000 + number,
        train_s=0.4,
        aggregate_s=0.1,
        missing=("6d3c0ff1a2b3c4d5",) if alone else (),
        metric="accuracy",
        value=0.1 + 0.85 * learned + 0.01 * (number % 3),
        baseline=0.1,
    )


def node_view(peers: int = 5, ended: int = 24) -> NodeView:
    """Return the view of a node after `ended` rounds, with so many peers, some of them unreachable."""
    kinds = ("reachable", "reachable", "reachable", "unreachable", "silent", "reachable", "not met", "left")
    known = tuple(_peer(number, kinds[number % len(kinds)], ended) for number in range(peers))
    return NodeView(
        kind="node",
        about={"task": "digits, 4810 parameters", "privacy": "dp-sgd", "may join": "keys on the list"},
        task="digits",
        key=KEY,
        round=ended,
        rounds=max(40, ended + 1),
        phase="shares",
        phase_since=time.time() - 1,
        spent_s={"idle": 1.2, "group": 0.3},
        waiting_for=("10.0.0.3:9001",),
        until=time.time() + 12,
        base_digest="ab" * 32,
        generation=ended,
        sent={"group": 30_000, "shares": 9_000_000, "sums": 12_000_000},
        received={"group": 32_000, "shares": 9_100_000, "sums": 12_100_000},
        dropped={"a SHARE of a session that is not this node's": 3},
        peers=known,
        privacy=LEDGER,
        accuracy_of="test",
        remarks=(
            Remark(START, False, "10.0.0.2:9001 is here (key 6d3c0ff1)"),
            Remark(START + 60, True, "12 of 4810 coordinates were cut to the bound: raise aggregation.clip"),
            Remark(START + 90, False, "10.0.0.3:9001 cannot be reached (connection refused); trying again"),
        ),
        history=rounds(ended),
        ended=False,
    )


def step_view(ended: int = 7) -> NodeView:
    """Return the view of a node with shared noise after `ended` rounds of ten steps; one sum failed."""
    steps = tuple(
        replace(
            one,
            outcome="aggregated",
            reason=None,
            participants=10,
            missing=("6d3c0ff1a2b3c4d5",) if one.round == 5 else (),
            steps=10,
            steps_failed=int(one.round == 5),
            epsilon_alone=6.6 * (one.epsilon or 0.0),
        )
        for one in rounds(ended)
    )
    trust = (
        "each record (row) in your data is protected with epsilon 3 as long as at least 6 of the other "
        "members are honest: they add their noise and tell nobody. With 4 it is 3.9, with 2 it is 6. If "
        "all others work together, only your own noise is left: epsilon 20. A member that adds no noise "
        "counts as dishonest, and nobody can tell"
    )
    view = node_view(9, ended)
    return replace(
        view,
        about={**view.about, "privacy": "distributed-dp-sgd", "trust": trust},
        rounds=20,
        generation=10 * ended + 4,
        privacy={
            **LEDGER,
            "mechanism": "distributed-dp-sgd",
            "epsilon_budget": 3.0,
            "epsilon_remaining": 1.75,
            "honest": 6,
            "epsilon_alone": 8.2,
            "epsilon_by_honest": {"6": 1.25, "4": 1.6, "2": 2.5, "0": 8.2},
            "budget_by_honest": {"6": 3.0, "4": 3.9, "2": 6.0, "0": 20.0},
            "steps_charged": 10 * ended + 6,
        },
        history=steps,
        report_every=10,
        steps=195,
    )


def job_view(ended: int = 7) -> NodeView:
    """Return the view of a node with an additive model without privacy: each round is a sum of a job."""
    view = node_view(3, ended)
    sums = tuple(
        replace(
            one,
            outcome="aggregated",
            reason=None,
            participants=4,
            missing=(),
            epsilon=None,
            purpose="cells" if one.round <= COUNT_SUMS else "curves",
            sum_number=one.round,
        )
        for one in view.history
    )
    return replace(
        view,
        about={"task": "ward, 300 parameters", "opened": "all the others together can compute yours"},
        rounds=12,
        privacy=None,
        history=sums,
        report_every=1,
        steps=12,
        exact=True,
        purpose="curves",
        curves=made_up_curves(14),
    )


COUNT_SUMS = 4


def made_up_curves(columns: int, outputs: tuple[str, ...] = ("yes",)) -> Curves:
    """Return the curves of so many columns: numbers, dates, times, yes or no, and categories in turn."""
    return Curves("odds", outputs, tuple(_curve(number, len(outputs)) for number in range(columns)))


def _curve(number: int, outputs: int) -> Curve:
    kind = ("number", "category", "date", "boolean", "time")[number % 5]
    ends = {"number": 20.0, "date": 20_000.0, "time": 6.0}
    if kind in ends:
        edges = [None, *(ends[kind] * (1 + place / 8) for place in range(1, 16)), None]
        cells = [CurveCell(f"from {low} to {high}", low, high, 0.0625) for low, high in pairwise(edges)]
        cells.append(CurveCell("missing", None, None, 0.02))
    else:
        words = (
            ("no", "yes") if kind == "boolean" else tuple(f"a ward with number {one}" for one in range(15))
        )
        cells = [CurveCell(word, None, None, 1 / len(words)) for word in words]
    sizes = [3 / (number + 1) * (output + 1) for output in range(outputs)]
    return Curve(
        column=f"column {number}",
        kind=kind,
        unit="mmHg" if kind == "number" else "",
        cells=tuple(cells),
        values=tuple(
            tuple(size * (place / len(cells) - 0.5) for place in range(len(cells))) for size in sizes
        ),
        bands=tuple((size / 4,) * len(cells) for size in sizes),
        importance=tuple(sizes),
    )


def _peer(number: int, contact: str, round: int) -> Peer:
    unreachable = contact == "unreachable"
    return Peer(
        endpoint=f"10.0.{number // 250}.{number % 250 + 1}:9001",
        key=None if contact == "not met" else f"{number:016x}",
        contact=contact,
        round=None if contact == "not met" else round,
        follows=number == 1,
        is_tracker=False,
        is_awaited=number == 2,
        why="connection refused" if unreachable else "",
    )


def tracker_view(peers: int = 5) -> TrackerView:
    """Return the view of a tracker with one swarm of so many peers."""
    states = ("ready", "ready", "here", "unreachable", "follows")
    visitors = tuple(
        Visitor(f"10.0.0.{number + 1}:9001", f"{number:016x}", 7, states[number % 5])
        for number in range(peers)
    )
    return TrackerView(
        kind="tracker",
        about={"groups": "of 3 peers or more; a task may ask for more", "may come": "3 keys on the list"},
        key=KEY,
        phase="idle",
        swarms=(Swarm("digits", "cd" * 8, visitors, 2, 3, 6),),
        peers=peers,
        dropped={},
        remarks=(Remark(START, False, "10.0.0.1:9001 is here (key 6d3c0ff1)"),),
        ended=False,
    )
