"""One warm fork server for all tests here; fixtures end whatever a test started."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.namespaces import OPEN, Conditions, NotPossible, Site, Wire
from tests.e2e.processes import ROOT, Nursery, Process
from tests.e2e.swarm import SMALL, Swarm
from tests.warm import warm_parent


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    warm_parent()


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script that an installation makes of the entry in pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    ((name, place),) = declared.items()
    module, _, function = place.partition(":")
    path = tmp_path_factory.mktemp("bin") / name
    guarded = f'if __name__ == "__main__":\n    sys.exit({function}())\n'
    path.write_text(f"import sys\nfrom {module} import {function}\n{guarded}", "utf-8")
    return path


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.end_all()


@pytest.fixture
def make_swarm(nursery: Nursery, tmp_path: Path):
    def make(
        count: int,
        rounds: int,
        *overrides: str,
        tracker: str | None = None,
        listed: int | None = None,
        usual: tuple[str, ...] = SMALL,
        waiting: bool = False,
    ) -> Swarm:
        return Swarm(nursery, tmp_path, count, rounds, overrides, tracker, listed, usual, waiting)

    return make


@pytest.fixture
def make_waiting_swarm(make_swarm) -> Callable[..., Swarm]:
    """Makes swarms whose members wait for each other, whatever the load of the machine."""
    return partial(make_swarm, waiting=True)


MakeWire = Callable[[Sequence[Site], int, Conditions], Wire]


@pytest.fixture
def make_wire() -> Iterator[MakeWire]:
    wires: list[Wire] = []

    def make(sites: Sequence[Site], seed: int, conditions: Conditions) -> Wire:
        try:
            wires.append(Wire(sites, seed, conditions))
        except NotPossible as why:
            pytest.skip(f"network namespaces are not to be had here: {why}")
        return wires[-1]

    yield make
    for wire in wires:
        wire.close()


@pytest.fixture
def make_nodes(make_wire: MakeWire, make_swarm) -> Callable[..., tuple[Swarm, Wire, list[Process]]]:
    """Returns a function that makes a node in each namespace."""

    def make(count: int, rounds: int, conditions: Conditions, *overrides: str):
        wire = make_wire([OPEN] * count, 7, conditions)
        swarm = make_swarm(count, rounds, *overrides)
        swarm.endpoints = wire.endpoints
        return swarm, wire, [swarm.start_in(number, wire.namespaces[number]) for number in range(count)]

    return make
