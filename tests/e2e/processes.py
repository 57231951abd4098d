"""Real processes on loopback: starts them, reads their lines, waits with a deadline, ends them by pid."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.e2e import dying_peer
from tests.e2e.dying_peer import Orders
from tests.patience import ENOUGH_S

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
# Below the range from which the system takes ports for outgoing connections: nobody takes one in between.
_ports = itertools.cycle(range(20000 + random.SystemRandom().randrange(9000), 32000))
# Nodes use TCP: a UDP socket of the same number keeps it from other pytests, as long as it is one of so many.
_kept: deque[socket.socket] = deque()
_MOST_KEPT = 256

Event = dict[str, Any]


def free_endpoint(host: str = HOST) -> str:
    """Returns an endpoint on loopback where nobody listens."""
    for port in _ports:
        keeper = socket.socket(type=socket.SOCK_DGRAM)
        try:
            keeper.bind((host, port))
            with closing(socket.socket()) as probe:
                probe.bind((host, port))
        except OSError:
            keeper.close()
            continue
        _kept.append(keeper)
        if len(_kept) > _MOST_KEPT:
            _kept.popleft().close()
        return f"{host}:{port}"
    raise AssertionError


class Lines:
    """The lines of a stream; a thread reads them as they come."""

    def __init__(self, descriptor: int) -> None:
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._ended = False
        self._thread = threading.Thread(target=self._read, args=(descriptor,), daemon=True)
        self._thread.start()

    def _read(self, descriptor: int) -> None:
        # A pseudo-terminal ends with an error where a pipe just ends.
        with open(descriptor, encoding="utf-8", errors="replace") as stream, suppress(OSError):
            for line in stream:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def all(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    def wait(self, fits: Callable[[str], bool]) -> str | None:
        """Returns the first line that fits; None if the stream or the time ends before."""
        found: list[str] = []

        def there() -> bool:
            found[:] = [line for line in self._lines if fits(line)]
            return bool(found) or self._ended

        with self._changed:
            self._changed.wait_for(there, ENOUGH_S)
        return found[0] if found else None

    def join(self) -> None:
        self._thread.join(ENOUGH_S)


class Process:
    """A started process with its two streams; `module` is "node" or "node.tracker"."""

    pid: int
    out: Lines
    err: Lines

    def status(self, within_s: float = ENOUGH_S) -> int:
        """Waits for its end; returns the exit status, negative for a signal."""
        raise NotImplementedError

    def alive(self) -> bool:
        raise NotImplementedError

    def send(self, sign: signal.Signals) -> None:
        os.kill(self.pid, sign)

    def kill(self) -> None:
        """Kills the process by pid if it still runs."""
        if self.alive():
            with suppress(ProcessLookupError):
                self.send(signal.SIGKILL)
        self.status()
        self.out.join()
        self.err.join()

    # -- what it says ------------------------------------------------------------------------------

    def line(self, text: str) -> str:
        """Waits for the first line of standard output with `text` in it (quotes in JSON are unescaped)."""

        def plain(line: str) -> str:
            return str(json.loads(line).get("text", "")) if line.startswith("{") else line

        line = self.out.wait(lambda line: text in plain(line))
        assert line is not None, f"never said {text!r}\n{self.told()}"
        return plain(line)

    def event(self, name: str, **values: Any) -> Event:
        """Waits for the first event of this name and with these values from a node with --json."""

        def fits(line: str) -> bool:
            event = json.loads(line)
            return event["event"] == name and all(event.get(key) == value for key, value in values.items())

        line = self.out.wait(fits)
        assert line is not None, f"no event {name} {values}\n{self.told()}"
        event: Event = json.loads(line)
        return event

    def event_after(self, name: str, fits: Callable[[Event], bool]) -> Event:
        """Waits for the first event of this name that fits."""

        def wanted(line: str) -> bool:
            event = json.loads(line)
            return event["event"] == name and fits(event)

        line = self.out.wait(wanted)
        assert line is not None, f"no event {name} that fits\n{self.told()}"
        event: Event = json.loads(line)
        return event

    def events(self, name: str) -> list[Event]:
        """Returns all events of this name so far."""
        events = [json.loads(line) for line in self.out.all()]
        return [event for event in events if event["event"] == name]

    def told(self) -> str:
        return "\n".join([*self.out.all()[-30:], *self.err.all()[-30:]])

    def ends_well(self) -> Event:
        """Waits until it ends with status 0 and an empty standard error; returns its summary."""
        status = self.status()
        self.err.join()
        assert (status, self.err.all()) == (0, []), self.told()
        return self.event("finished")

    def fails(self, status: int) -> str:
        """Waits until it ends with `status` and one line that begins with `error:`; returns that line."""
        ended = self.status()
        self.err.join()
        lines = self.err.all()
        assert ended == status, self.told()
        assert len(lines) == 1, self.told()
        assert lines[0].startswith("error: "), lines
        return lines[0]


class Forked(Process):
    """A process forked from one that has torch in memory, which takes milliseconds instead of seconds."""

    def __init__(self, module: str, argv: Sequence[str], orders: Orders) -> None:
        context = multiprocessing.get_context("forkserver")
        out, out_end = context.Pipe(duplex=False)
        err, err_end = context.Pipe(duplex=False)
        arguments = (module, list(argv), out_end, err_end, orders)
        self._process = context.Process(target=dying_peer.run, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        for end in (out_end, err_end):
            end.close()
        self.out, self.err = (Lines(os.dup(stream.fileno())) for stream in (out, err))
        for stream in (out, err):
            stream.close()

    def status(self, within_s: float = ENOUGH_S) -> int:
        self._process.join(within_s)
        status = self._process.exitcode
        assert status is not None, f"still runs after {within_s} s\n{self.told()}"
        return status

    def alive(self) -> bool:
        return self._process.exitcode is None


class Plain(Process):
    """A command that runs as a user types it."""

    def __init__(self, words: Sequence[str], cwd: Path, stdout: int, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**env, "TERM": "xterm", "COLUMNS": "110", "LINES": "40"},
        )
        self.pid = self._process.pid
        assert self._process.stderr is not None
        if self._process.stdout is not None:
            self.out = Lines(os.dup(self._process.stdout.fileno()))
            self._process.stdout.close()
        else:
            self.out = Lines(os.open(os.devnull, os.O_RDONLY))
        self.err = Lines(os.dup(self._process.stderr.fileno()))
        self._process.stderr.close()

    def status(self, within_s: float = ENOUGH_S) -> int:
        return self._process.wait(within_s)

    def alive(self) -> bool:
        return self._process.poll() is None


class Nursery:
    """Starts processes; ends those that are left."""

    def __init__(self) -> None:
        self._started: list[Process] = []
        self._keys: tempfile.TemporaryDirectory[str] | None = None

    def fork(self, *argv: str, orders: Orders | None = None) -> Process:
        """Forks a node."""
        return self._keep(Forked("node.__main__", argv, orders or Orders()))

    def tracker(self, *argv: str, orders: Orders | None = None) -> Process:
        """Starts a tracker. Its key follows from its endpoint, at every start, unless `argv` names a file."""
        if self._keys is None:
            self._keys = tempfile.TemporaryDirectory(prefix="murmuration-trackers-")
        where = argv[argv.index("--listen") + 1]
        key = () if "--key" in argv else ("--key", str(Path(self._keys.name) / f"{where}.key"))
        return self._keep(Forked("node.tracker", (*argv, *key), orders or Orders()))

    def module(self, name: str, *argv: str, orders: Orders | None = None) -> Process:
        """Forks a process that runs a module's `main`."""
        return self._keep(Forked(name, argv, orders or Orders()))

    def command(self, module: str, argv: Sequence[str], cwd: Path, orders: Orders | None = None) -> Process:
        """Runs a module's `main` in the folder `cwd`."""
        return self._keep(Forked("tests.e2e.inside", (str(cwd), module, *argv), orders or Orders()))

    def script(self, path: Path, cwd: Path) -> Process:
        """Runs `python PATH` in the folder `cwd`."""
        return self._keep(Forked("tests.e2e.script", (str(path), str(cwd)), Orders()))

    def predict(self, *argv: str) -> Process:
        return self._keep(Forked("node.predict", argv, Orders()))

    def plain(self, module: str, *argv: str, cwd: Path, stdout: int = subprocess.PIPE) -> Process:
        return self._keep(Plain((sys.executable, "-m", module, *argv), cwd, stdout, os.environ))

    def typed(self, words: Sequence[str], cwd: Path) -> Process:
        """Runs any command; it finds this source tree only if it looks for it."""
        env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        return self._keep(Plain(words, cwd, subprocess.PIPE, env))

    def terminal(self, *argv: str, cwd: Path, master: int, slave: int) -> Process:
        """Starts a node whose output is a terminal; the test reads what it shows from `master`."""
        process = Plain((sys.executable, "-m", "node", *argv), cwd, slave, os.environ)
        os.close(slave)
        process.out.join()
        process.out = Lines(master)
        return self._keep(process)

    def _keep(self, process: Process) -> Process:
        self._started.append(process)
        return process

    def end_all(self) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                if process.alive():
                    process.send(signal.SIGKILL)
        for process in self._started:
            process.kill()
        if self._keys is not None:
            self._keys.cleanup()
