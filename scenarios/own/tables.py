"""Cells from tables: the sections of a task, and those of a server, its clients and their attack.

    no [server]    peers without a server learn the task, with the mechanism of [privacy]
    [server]       clients of a server, which sees single updates; [attack] makes some of them dishonest

The rows are those of [data]: a file or folder that nodes can read, `digits`, or a data set of the scenarios
by its name, which is dealt evenly among peers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from node.system.errors import ConfigError, shown
from node.task.load import read_task
from node.task.rules import choice, key, plain_table, read_section, real, text, unknown_name, whole
from node.task.sections import BUILT_IN_SOURCES, Task
from scenarios.clients.aggregators import aggregated_by
from scenarios.clients.attacks import own_attackers
from scenarios.clients.choices import PARTITIONS, Clients, MechanismChoice, RowChoice
from scenarios.clients.poisons import NOBODY
from scenarios.data.sources import SOURCES
from scenarios.federated.cell import FederatedCell
from scenarios.study.cells import Cell
from scenarios.swarms.cells import SwarmCell
from scenarios.swarms.dealt import ACCURACY, PeersCell
from scenarios.swarms.nodes import checked_peers

PEERS, SERVER, ATTACK = "peers", "server", "attack"
_PATH = r"[\w.]+:[\w.]+"
_arguments = plain_table("a table of text, numbers, booleans, lists")
_most_peers = whole(1, 10_000)

Table = Mapping[str, Any]
"""A parsed table of sections, and `peers`, the number of peers or clients."""


@dataclass(frozen=True)
class ServerSection:
    """A server and its clients. `mechanism`: a built-in one or an import path, made with `parameters`.

    An `aggregator`, a function by import path, takes the place of the mechanism. `partition` deals the rows.
    """

    mechanism: str | None = key(text("the name of a server's mechanism, or 'package.module:Class'"), None)
    parameters: Mapping[str, Any] = key(_arguments, factory=dict)
    aggregator: str | None = key(text("'package.module:function'", _PATH), None)
    aggregator_parameters: Mapping[str, Any] = key(_arguments, factory=dict)
    partition: str = key(choice(*PARTITIONS), "iid")
    partition_parameters: Mapping[str, Any] = key(_arguments, factory=dict)


@dataclass(frozen=True)
class AttackSection:
    """An attack by import path, made with `parameters`, by a `share` of the clients."""

    cls: str = key(text("'package.module:Class'", _PATH), name="class")
    share: float = key(real(at_least=0, at_most=1), 0.2)
    parameters: Mapping[str, Any] = key(_arguments, factory=dict)


SECTIONS: tuple[str, ...] = (*(name for name in get_type_hints(Task) if name != "task"), SERVER, ATTACK)
"""The sections of a table."""


def cell_of(arm: str, table: Table) -> Cell:
    """The cell that a table describes, with seed 0. Raises ConfigError."""
    for name in table:
        if name not in (*SECTIONS, PEERS):
            raise unknown_name("section", name, name, [*SECTIONS, PEERS])
    for section in ("privacy", "aggregation", "agreement") if SERVER in table else ():
        if table.get(section):
            name = next(iter(table[section]))
            raise ConfigError(
                f"{section}.{name} has no effect with [server], whose mechanism is server.mechanism; "
                "leave it out"
            )
    peers = _peers(table)
    task_table = {name: table[name] for name in SECTIONS if name in table and name not in (SERVER, ATTACK)}
    task = read_task({"task": {"name": "study"}, **task_table})
    if SERVER in table:
        return _federated(arm, table, task, peers)
    if ATTACK in table:
        raise ConfigError("[attack] has no effect without [server]: its attackers are a server's clients")
    return _swarm(arm, task_table, task, peers)


def _peers(table: Table) -> int:
    if PEERS not in table:
        raise ConfigError(f"{PEERS} is missing; allowed: {_most_peers.allowed}")
    try:
        found: int = _most_peers.accept(table[PEERS])
    except ValueError:
        raise ConfigError(
            f"{PEERS} = {shown(table[PEERS])} is refused; allowed: {_most_peers.allowed}"
        ) from None
    return found


def _swarm(arm: str, table: Table, task: Task, peers: int) -> Cell:
    """Peers with parts of the task's rows, or of a data set of the scenarios."""
    source = task.data.source
    if source is None:
        raise ConfigError(f"data.source is missing; allowed: a file or folder of data, {_built_in()}")
    if source in SOURCES and source not in BUILT_IN_SOURCES:
        sections = {name: own for name, own in table.items() if name != "data"}
        named: Table = {"task": {"name": "study"}, **sections}
        return PeersCell(
            arm=arm, table=named, rows=source, measure=ACCURACY, peers=checked_peers(task, peers)
        )
    return SwarmCell(arm, task, checked_peers(task, peers))


def _built_in() -> str:
    return ", ".join(map(repr, SOURCES))


def _federated(arm: str, table: Table, task: Task, clients: int) -> FederatedCell:
    if task.data.source is None:
        raise ConfigError(f"data.source is missing; allowed: a file or folder of data, {_built_in()}")
    server = read_section(ServerSection, SERVER, table[SERVER])
    known = task.data.source in SOURCES
    attackers = NOBODY
    if ATTACK in table:
        attack = read_section(AttackSection, ATTACK, table[ATTACK])
        attackers = own_attackers(attack.cls, attack.parameters, attack.share)
    return FederatedCell(
        arm=arm,
        seed=0,
        rows=RowChoice(task.data.source if known else task.data),
        clients=Clients(server.partition, clients, server.partition_parameters),
        model=task.model,
        train=task.train,
        mechanism=_mechanism(server, clients),
        attackers=attackers,
    )


def _mechanism(server: ServerSection, clients: int) -> MechanismChoice:
    """The server's mechanism; plain averaging without any has all clients in every round."""
    if server.aggregator is not None:
        if server.mechanism is not None or server.parameters:
            raise ConfigError(
                "server.aggregator takes the place of server.mechanism and server.parameters; give one"
            )
        return aggregated_by(server.aggregator, server.aggregator_parameters)
    if server.aggregator_parameters:
        raise ConfigError("server.aggregator_parameters has no effect without server.aggregator; name one")
    parameters = server.parameters
    if server.mechanism in (None, "fedavg"):
        parameters = {"clients_per_round": clients, **parameters}
    return MechanismChoice(server.mechanism or "fedavg", parameters)
