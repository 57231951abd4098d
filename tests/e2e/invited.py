"""Swarms by invitation in namespaces: a relay, and owners with files behind firewalls and proxies."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.e2e import proxy
from tests.e2e.dying_peer import Orders
from tests.e2e.namespaces import Wire, address, within
from tests.e2e.processes import Nursery, Process
from tests.own_data import ward
from tests.patience import ENOUGH_S

RELAY = 0
"""The number of the relay's namespace."""
PASSWORD = "ward:secret"
DATA = "own.csv"
_BEAT_S = 0.1


@dataclass
class Owner:
    """One owner: the number of its namespace, a name, a folder with a file, and the commands that it ran."""

    number: int
    name: str
    folder: Path
    environment: tuple[tuple[str, str], ...] = ()
    ran: list[Process] = field(default_factory=list)

    @property
    def process(self) -> Process:
        """The command that runs, or ran last."""
        return self.ran[-1]

    @property
    def run(self) -> Path:
        """The folder of the run."""
        return self.folder / "runs" / "ward"


class Place:
    """A wire with a relay, and owners who meet by it."""

    def __init__(self, nursery: Nursery, wire: Wire, folder: Path) -> None:
        self.wire = wire
        self._nursery, self._folder = nursery, folder
        self._key = folder / "relay.key"
        self.start_relay()

    def start_relay(self) -> Process:
        """Starts the relay, with the key and the word of its first start."""
        where = ("--listen", f"{address(RELAY)}:443", "--relay", "--key", str(self._key))
        self.relay = self._nursery.tracker(*where, orders=Orders(namespace=self.wire.namespaces[RELAY]))
        self.relay.line("to invite, give people this address")
        return self.relay

    def start_proxy(self, number: int, *manners: str) -> Process:
        """Starts a proxy in a namespace."""
        orders, where = Orders(namespace=self.wire.namespaces[number]), f"{address(number)}:{proxy.PORT}"
        process = self._nursery.module("tests.e2e.proxy", where, *manners, orders=orders)
        process.line("ready")
        return process

    def owner(self, number: int, name: str, proxied_by: int | None = None) -> Owner:
        """Returns an owner with a table and nothing else, in the namespace of that number."""
        folder = self._folder / name.replace(" ", "-")
        folder.mkdir()
        (folder / DATA).write_text(ward(300, number))
        where = None if proxied_by is None else f"http://{PASSWORD}@{address(proxied_by)}:{proxy.PORT}"
        return Owner(number, name, folder, () if where is None else (("HTTPS_PROXY", where),))

    def command(self, owner: Owner, module: str, *argv: str) -> Process:
        """Runs a command of an owner in its folder."""
        orders = Orders(namespace=self.wire.namespaces[owner.number], environment=owner.environment)
        owner.ran.append(self._nursery.command(module, argv, owner.folder, orders))
        return owner.process

    def propose(self, inviter: Owner, *init: str) -> Path:
        """Makes a task of the inviter's file."""
        made = self.command(
            inviter, "node.init", "--data", DATA, "--target", "outcome", "--out", "ward.toml", *init
        )
        assert made.status() == 0, made.told()
        return inviter.folder / "ward.toml"

    def invite(self, inviter: Owner, others: Sequence[Owner]) -> None:
        """Invites the others to the proposed task; they join."""
        word = self._key.with_name(f"{self._key.name}.word").read_text().strip()
        where = ("--relay", f"{address(RELAY)}#{word}", "--me", inviter.name, "--yes")
        names = [other.name for other in others]
        told = self.command(inviter, "node.invite", "ward.toml", "--data", DATA, *where, *names)
        for other in others:
            code = told.line(f"  {other.name}   murmuration join").split()[-1]
            self.command(other, "node.join", code, "--data", DATA, "--yes")


@contextmanager
def cut_in(wire: Wire, owner: Owner, phases: Collection[str]) -> Iterator[str]:
    """Cuts an owner's line in the context, in one of these phases of its node; "idle" is training.

    Yields the phase that the node reports once the line is cut. Where it is in another one by then, the line
    is mended at once and cut again later.
    """
    while True:
        _wait_for_phase(wire, owner, phases)
        with wire.cut(owner.number):
            phase = _reported(wire, owner, lambda phase: True)
            if phase in phases:
                yield phase
                return


def _wait_for_phase(wire: Wire, owner: Owner, phases: Collection[str]) -> None:
    assert _reported(wire, owner, phases.__contains__), f"{owner.name} ended without {phases}"


def _reported(wire: Wire, owner: Owner, is_sought: Callable[[str], bool]) -> str | None:
    """Returns the first of such phases that an owner's page shows, from now on; None if its node ends."""
    page = urlsplit(owner.process.line("page: http").split()[-1]).netloc

    def watch() -> str | None:
        with closing(http.client.HTTPConnection(page, timeout=ENOUGH_S)) as connection:
            connection.request("GET", "/v1/events")
            changes = (line for line in connection.getresponse() if line.startswith(b"data: "))
            shown = (json.loads(line[6:]).get("phase") for line in changes)
            return next((phase for phase in shown if phase is not None and is_sought(phase)), None)

    return within(wire.namespaces[owner.number], watch)


@contextmanager
def slowed(process: Process, times: int) -> Iterator[None]:
    """A process gets one part in `times` of the time, in the context."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(_BEAT_S / times):
            process.send(signal.SIGSTOP)
            over.wait(_BEAT_S * (times - 1) / times)
            process.send(signal.SIGCONT)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        process.send(signal.SIGCONT)
