"""A node beside the program that made it, in a thread of its own with an event loop of its own.

So neither holds up the other: a notebook's cell that computes for a minute does not let the node miss a
deadline, and a node that trains does not freeze the notebook. What the node says comes out as values.
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
from node.app import Agreed, prepare, run_as
from node.observe.lines import event_texts
from node.options import NodeOptions
from node.runtime.artifacts import Record, Summary
from node.runtime.engine import Engine
from node.runtime.events import Finished, NodeEvent, RoundEnded, Started
from node.signals import until_over

_LOOK_S = 0.2


class _Transcript:
    """Keeps what a node says: its lines, each round's record, the summary."""

    def __init__(self, heard: Callable[[Record], None]) -> None:
        self.about: dict[str, str] = {}
        self.lines: list[str] = []
        self.summary: Summary | None = None
        self._heard = heard

    def handle(self, event: NodeEvent) -> None:
        """A record goes to whoever reads."""
        if isinstance(event, Started):
            self.about = dict(event.lines)
        self.lines.extend(event_texts(event))
        match event:
            case RoundEnded(record):
                self._heard(record)
            case Finished(summary):
                self.summary = summary


class Run:
    """One run of one node. `heard` gets each round's record, `ended` the error of a run that ends by one.

    Both are called in the node's thread.
    """

    def __init__(
        self,
        options: NodeOptions,
        listener: socket.socket | None,
        heard: Callable[[Record], None],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """`listener`: an already listening socket, closed at the end; None: the node opens its own."""
        self.records: Stream[Record] = Stream()
        self._heard = heard
        self._transcript = _Transcript(self._take)
        self._options = options
        self._listener = listener
        self._ended = ended
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] | None = None
        self.stopping = False
        self.module: nn.Module | None = None

    @property
    def begun(self) -> bool:
        """Whether it was started."""
        return self._thread is not None

    @property
    def about(self) -> dict[str, str]:
        """What the node said of itself at its start."""
        return dict(self._transcript.about)

    @property
    def lines(self) -> tuple[str, ...]:
        """All that the node said, as a terminal would show it."""
        return tuple(self._transcript.lines)

    @property
    def summary(self) -> Summary | None:
        """The run as a whole, once it is over."""
        return self._transcript.summary

    @property
    def out(self) -> Path | None:
        """The folder of the run, once it has one."""
        out = self.about.get("out")
        return None if out is None else Path(out)

    def start(self) -> None:
        """Begin, if that has not been done."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="murmuration node")
                self._thread.start()

    def stop(self) -> None:
        """End soon, between two batches at the latest; from any thread. A run that never began stays so."""
        with self._lock:
            self.stopping = True
            if self._stop is not None:
                self._stop()

    def join(self) -> None:
        """Until it is over, thread and all; raises what ended it, if that was an error.

        Ctrl-C meanwhile ends the node first, cleanly.
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
                run_as(prepare(self._options), self._listener, self._transcript, self._live)
        except BaseException as raised:  # noqa: BLE001 - raised anew where somebody waits
            error = raised
        finally:
            if self._listener is not None:
                self._listener.close()
            self._ended(error)
            self.records.end(error)

    async def _live(self, engine: Engine, agreed: Agreed) -> None:
        watch = asyncio.create_task(_until_the_program_ends(self.stop))
        try:
            self._may_stop(engine)
            await until_over(engine)
            self.module = await asyncio.to_thread(agreed)
        finally:
            watch.cancel()
            with self._lock:
                self._stop = None

    def _may_stop(self, engine: Engine) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._stop = lambda: loop.call_soon_threadsafe(engine.stopping.at_once)
            if self.stopping:
                engine.stopping.at_once()


async def _until_the_program_ends(stop: Callable[[], None]) -> None:
    """The interpreter waits for threads like this one before it ends: nothing else would tell them."""
    while threading.main_thread().is_alive():  # noqa: ASYNC110 - nothing is set at its end
        await asyncio.sleep(_LOOK_S)
    stop()


class _TorchThreads:
    """A node sets how many threads torch takes; the program gets its own number back after the last node."""

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
