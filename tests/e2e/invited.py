"""Swarms by invitation: a relay in a namespace of its own, and owners with their files behind firewalls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.e2e import proxy
from tests.e2e.dying_peer import Orders
from tests.e2e.namespaces import Wire, address
from tests.e2e.processes import Nursery, Process

RELAY = 0
"""The number of the relay's namespace."""
PASSWORD = "ward:secret"


def table(path: Path, seed: int, rows: int = 400) -> None:
    """Writes a table: the outcome follows from age and lactate, ward says nothing."""
    rng = np.random.default_rng(seed)
    age, lactate = rng.normal(61, 17, rows), rng.normal(2, 0.7, rows)
    outcome = (age - 61) / 17 + (lactate - 2) / 0.7 + rng.normal(0, 0.5, rows) > 0
    ward = rng.choice(["east", "west"], rows)
    lines = [f"{a:.0f},{b:.1f},{w},{int(y)}" for a, b, w, y in zip(age, lactate, ward, outcome, strict=True)]
    path.write_text("\n".join(["age,lactate,ward,outcome", *lines]) + "\n")


@dataclass
class Owner:
    """One owner: the number of the namespace, the name, a folder with a file, the command that runs."""

    number: int
    name: str
    folder: Path
    environment: tuple[tuple[str, str], ...] = ()
    ran: list[Process] = field(default_factory=list)

    @property
    def process(self) -> Process:
        """The command that runs, or ran last."""
        return self.ran[-1]


@dataclass
class Place:
    """A wire with a relay, and owners who meet by it."""

    nursery: Nursery
    wire: Wire
    folder: Path

    def __post_init__(self) -> None:
        self.relay = self.start_relay()

    def start_relay(self) -> Process:
        """Starts the relay, with the key and the word of its first start."""
        where = ("--listen", f"{address(RELAY)}:443", "--relay", "--key", str(self._relay_key))
        process = self.nursery.tracker(*where, orders=Orders(namespace=self.wire.namespaces[RELAY]))
        process.line("relays: ")
        return process

    @property
    def _relay_key(self) -> Path:
        return self.folder / "relay.key"

    @property
    def address_with_word(self) -> str:
        """The address of the relay as people get it who may invite."""
        return f"{address(RELAY)}#{self._relay_key.with_name('relay.key.word').read_text().strip()}"

    def start_proxy(self, number: int, *manners: str) -> Process:
        """Starts a proxy in a namespace."""
        orders = Orders(namespace=self.wire.namespaces[number])
        process = self.nursery.module(
            "tests.e2e.proxy", f"{address(number)}:{proxy.PORT}", *manners, orders=orders
        )
        process.line("ready")
        return process

    def owner(self, number: int, name: str, rows: int = 400, proxied_by: int | None = None) -> Owner:
        """Returns an owner with a table, in the namespace of that number."""
        folder = self.folder / name.replace(" ", "-")
        folder.mkdir()
        table(folder / "data.csv", number, rows)
        where = "" if proxied_by is None else f"http://{PASSWORD}@{address(proxied_by)}:{proxy.PORT}"
        return Owner(number, name, folder, ((("HTTPS_PROXY", where),) if where else ()))

    def run(self, owner: Owner, module: str, *argv: str) -> Process:
        """Runs a command of an owner in its folder."""
        orders = Orders(namespace=self.wire.namespaces[owner.number], environment=owner.environment)
        owner.ran.append(self.nursery.command(module, argv, owner.folder, orders))
        return owner.process

    def invite(self, inviter: Owner, others: Sequence[Owner], *init: str) -> dict[str, str]:
        """Makes a task and invites; returns the codes by name."""
        argv = ("--data", "data.csv", "--target", "outcome", "--out", "ward.toml", *init)
        made = self.run(inviter, "node.init", *argv)
        assert made.status() == 0, made.told()
        names = [other.name for other in others]
        where = ("--relay", self.address_with_word, "--me", inviter.name, "--yes")
        told = self.run(inviter, "node.invite", "ward.toml", "--data", "data.csv", *where, *names)
        return {
            name: told.line(f"{name}   murmuration join ").rpartition(" ")[2] for name in names
        }

    def join(self, owner: Owner, code: str) -> Process:
        """Joins by a code."""
        return self.run(owner, "node.join", code, "--data", "data.csv", "--yes")


def run_folder(owner: Owner) -> Path:
    """Returns the folder of an owner's only run."""
    (found,) = [path.parent for path in owner.folder.glob("runs/*/swarm.toml")]
    return found


def files_of(owner: Owner) -> dict[Path, bytes]:
    """Returns what an owner's folder has, but for runs."""
    return {
        path: path.read_bytes() for path in owner.folder.iterdir() if path.is_file() and os.access(path, os.R_OK)
    }
