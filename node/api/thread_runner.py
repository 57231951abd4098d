"""Runs a node beside the program that created it, in its own thread with its own event loop.

So neither blocks the other: a notebook cell that computes for a minute does not make the node miss a
deadline, and a node that trains does not freeze the notebook. The program receives the node's events as
values.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from node.api.streams import Stream
from node.app.run import Agreed, Prepared, prepare, run_as
from node.app.signals import until_over
from node.observe.lines import event_texts
from node.options import NodeOptions
from node.runtime.engine import Engine
from node.runtime.record.events import Finished, NodeEvent, RoundEnded, Started
from node.runtime.record.figures import Record, Summary
from node.storage.vector_files import Floats

_LOOK_S = 0.2


class _Transcript:
    """Collects a node's output: its lines and summary; passes on each round's record."""

    def __init__(self, heard: Callable[[Record], None], seen: Callable[[NodeEvent], None]) -> None:
        self.about: dict[str, str] = {}
        self.lines: list[str] = []
        self.summary: Summary | None = None
        self._heard, self._seen = heard, seen

    def handle(self, event: NodeEvent) -> None:
        """Keeps the event's lines; passes a round's record to `heard`."""
        if isinstance(event, Started):
            self.about = dict(event.lines)
        self.lines.extend(event_texts(event))
        match event:
            case RoundEnded(record):
                self._heard(record)
            case Finished(summary):
                self.summary = summary
        self._seen(event)


class Run:
    """One run of one node.

    It calls `heard` with each round's record, `seen` with each event, and `ended` with the error that ended
    the run, or None. All run in the node's thread.
    """

    def __init__(
        self,
        options: NodeOptions,
        listener: socket.socket | None,
        heard: Callable[[Record], None],
        ended: Callable[[BaseException | None], None],
        prepared: Callable[[NodeOptions], Prepared] = prepare,
        seen: Callable[[NodeEvent], None] = lambda _: None,
    ) -> None:
        """`listener` is an already listening socket, closed at the end; None: the node opens its own.

        `prepared` reads and checks what the node works on.
        """
        self._prepared = prepared
        self.records: Stream[Record] = Stream()
        self._heard = heard
        self._transcript = _Transcript(self._take, seen)
        self._options = options
        self._listener = listener
        self._ended = ended
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] | None = None
        self.stopping = False
        self.module: nn.Module | None = None
        """The torch module with the agreed base, once the run is over; None: there is none."""
        self.vector: Floats | None = None
        """The agreed base (d,), once the run is over."""

    @property
    def begun(self) -> bool:
        """Whether the run was started."""
        return self._thread is not None

    @property
    def about(self) -> dict[str, str]:
        """The node's start-up lines, by name."""
        return dict(self._transcript.about)

    @property
    def lines(self) -> tuple[str, ...]:
        """The node's output, as a terminal would show it."""
        return tuple(self._transcript.lines)

    @property
    def summary(self) -> Summary | None:
        """The summary of the whole run; None before its end."""
        return self._transcript.summary

    @property
    def out(self) -> Path | None:
        """The folder of the run; None before it has one."""
        out = self.about.get("out")
        return None if out is None else Path(out)

    def start(self) -> None:
        """Starts the run, unless it was started."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="murmuration node")
                self._thread.start()

    def stop(self) -> None:
        """Ends the run, between two batches at the latest. Any thread may call it; it never starts a run."""
        with self._lock:
            self.stopping = True
            if self._stop is not None:
                self._stop()

    def join(self) -> None:
        """Waits for the end of the run and of its thread; raises the error that ended it, if any.

        Ctrl-C meanwhile first ends the node cleanly.
        """
        try:
            self.records.wait()
        except KeyboardInterrupt:
            self.stop()
            with suppress(Exception):
                self.records.wait()
            raise
        finally:
            if self._thread is not None and self.records.ended:
                self._thread.join()

    # -- in the thread -----------------------------------------------------------------------------

    def _take(self, record: Record) -> None:
        self.records.put(record)
        self._heard(record)

    def _main(self) -> None:
        error: BaseException | None = None
        try:
            with _torch_threads:
                run_as(self._prepared(self._options), self._listener, self._transcript, self._live)
        except BaseException as raised:  # noqa: BLE001 - raised again in the waiting thread
            error = raised
        finally:
            if self._listener is not None:
                self._listener.close()
            self._ended(error)
            self.records.end(error)

    async def _live(self, engine: Engine, agreed: Agreed) -> None:
        watch, loop = asyncio.create_task(_until_the_program_ends(self.stop)), asyncio.get_running_loop()
        try:
            with self._lock:
                self._stop = lambda: loop.call_soon_threadsafe(engine.stopping.at_once)
                if self.stopping:
                    engine.stopping.at_once()
            await until_over(engine)
            self.module = await asyncio.to_thread(agreed)
            _, self.vector = engine.agreed  # the run is over, so it is this one's alone
        finally:
            watch.cancel()
            with self._lock:
                self._stop = None


async def _until_the_program_ends(stop: Callable[[], None]) -> None:
    """Stops the node when the main thread ends, because the interpreter waits for threads like this one."""
    while threading.main_thread().is_alive():  # noqa: ASYNC110 - no event is set at its end
        await asyncio.sleep(_LOOK_S)
    stop()


class _TorchThreads:
    """Restores the program's number of torch threads after the last node, since nodes set their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes = 0
        self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._nodes:
                self._before = torch.get_num_threads()
            self._nodes += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._nodes -= 1
            if not self._nodes:
                torch.set_num_threads(self._before)


_torch_threads = _TorchThreads()
