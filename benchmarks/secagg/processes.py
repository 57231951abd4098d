"""The parent of a cell's n processes, which begin each round at the same moment."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks.secagg.cells import GLOO, Cell, Result, RoundCost, Sample
from benchmarks.secagg.member import Place
from node.system.errors import UserError
from scenarios.frame.children import Children, warm_up
from scenarios.swarms.nodes import endpoints_of, listeners

STEP_S = 1200.0
_LOOK_S = 0.5


def measure(cell: Cell, rounds: int) -> Result:
    """Run a round that does not count, then `rounds` counted ones. Raises UserError if one of them fails."""
    with connected_processes(cell, tls=False) as group:
        taken = [group.run_round(number) for number in range(rounds + 1)]
    return Result(cell, taken[1:])


@contextmanager
def connected_processes(cell: Cell, tls: bool) -> Iterator[Processes]:
    """Start the processes of a cell; end them on leaving the context. Raises UserError if one fails."""
    warm_up(("benchmarks.secagg.member", "benchmarks.secagg.gloo"))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        children = stack.enter_context(Children())
        pipes = [stack.enter_context(pipe) for pipe in _start_all(cell, tls, children, Path(folder), stack)]
        group = Processes(cell, children, pipes)
        yield group
        group.end()


def _start_all(cell: Cell, tls: bool, children: Children, folder: Path, stack: ExitStack) -> list[Connection]:
    """Start a process for each member; return the parent's ends of their pipes."""
    count = 0 if cell.protocol == GLOO else cell.n
    sockets = stack.enter_context(listeners(count))
    endpoints = endpoints_of(sockets)
    ours: list[Connection] = []
    for member in range(cell.n):
        mine, theirs = Pipe()
        with theirs:
            log = folder / f"{member}.txt"
            if cell.protocol == GLOO:
                arguments: tuple[Any, ...] = (cell, member, str(folder / "store"), theirs)
                children.start(f"process {member}", log, "benchmarks.secagg.gloo:run", *arguments)
            else:
                place = Place(cell, member, endpoints, tls)
                arguments = (place, folder / str(member), sockets[member], theirs)
                children.start(f"peer {member}", log, "benchmarks.secagg.member:run", *arguments)
        ours.append(mine)
    return ours


class Processes:
    """The processes of a cell. Each of them does the next thing when the parent says so."""

    def __init__(self, cell: Cell, children: Children, pipes: Sequence[Connection]) -> None:
        self._cell = cell
        self._children = children
        self._pipes = pipes
        self.met_cpu_s: Sequence[float | None] = self._receive_all()
        """The CPU seconds that each process spent until it had met all others; None for gloo."""

    def run_round(self, number: int) -> RoundCost:
        """Run one round. Raises UserError if a process fails, or if the peers hold different means."""
        self._send(number)
        self._receive_all()
        begun = time.monotonic()
        self._send("go")
        done = max(self._receive_all())
        self._send("over")
        samples: list[Sample] = self._receive_all()
        means = {sample.mean for sample in samples}
        if len(means) > 1:
            raise UserError(f"secagg: the peers of {self._cell} came to {len(means)} different means")
        return RoundCost(done - begun, samples)

    def end(self) -> None:
        """End all processes."""
        self._send(None)

    def _send(self, message: object) -> None:
        """Send a message to all processes."""
        for pipe in self._pipes:
            pipe.send(message)

    def _receive_all(self) -> list[Any]:
        """Return a message of each process, by member. Raises UserError if one ends, or takes STEP_S."""
        got: dict[Connection, Any] = {}
        deadline = time.monotonic() + STEP_S
        while len(got) < len(self._pipes):
            for pipe in wait([pipe for pipe in self._pipes if pipe not in got], _LOOK_S):
                if isinstance(pipe, Connection):
                    got[pipe] = self._receive(pipe)
            if time.monotonic() > deadline:
                raise UserError(f"secagg: no answer from {len(self._pipes) - len(got)} processes")
        return [got[pipe] for pipe in self._pipes]

    def _receive(self, pipe: Connection) -> Any:
        try:
            return pipe.recv()
        except (EOFError, ConnectionError) as ended:
            self._children.wait(_LOOK_S)
            self._children.running()
            raise UserError("secagg: a process ended before its time") from ended
