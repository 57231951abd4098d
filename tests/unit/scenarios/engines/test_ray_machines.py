"""Engine `ray` on two machines: two nodes of a Ray cluster on loopback, with a core each.

Every kind of cell runs there, and gives the bits of engine `inline`.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.engines.choice import RaySection
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.study.cells import Cell, Outcome
from tests import dealt_cells
from tests.criteo_rows import SMALL, written
from tests.own_studies import NOISED, Told

pytest.importorskip("ray")
import ray
from ray.cluster_utils import Cluster

from node.task.load import load_task
from scenarios.engines.ray import RayEngine, own_cores
from scenarios.engines.ray_cluster import OWN_CLUSTER
from scenarios.swarms.cells import SwarmCell, changed_task
from scenarios.swarms.lying import Lie, LyingSwarmCell
from scenarios.swarms.share_errors import ShareErrorCell
from tests.located import NODE, Located

STORE_BYTES = 80 * 1024 * 1024
DIGITS = changed_task(load_task("digits", ()), {"train": {"rounds": 2, "epochs": 1}})
SWARM = SwarmCell("swarm", changed_task(DIGITS, {"privacy": {"mechanism": "ldp", "epsilon": 100}}), 5)
ONCE = SwarmCell("lied", DIGITS, 5)
KINDS: tuple[Cell, ...] = (
    SWARM,
    SWARM.seeded(1),
    LyingSwarmCell(ONCE, Lie(0.2), 1),
    ShareErrorCell(replace(ONCE, arm="shares")),
    replace(dealt_cells.peers(), arm="steps"),
    replace(dealt_cells.server(dealt_cells.LOCAL), arm="server"),
    SMALL,
)


@pytest.fixture
def two_machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster of two nodes on loopback, with a core each; each has its own raylet and object store."""
    for name, value in OWN_CLUSTER.items():
        monkeypatch.setenv(name, value)
    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def without_node(outcome: Outcome) -> tuple:
    facts = {name: value for name, value in outcome.facts.items() if name not in (NODE, *TIMED)}
    return outcome.figures, facts, outcome.series


TIMED = ("gradient s a peer and step",)
"""Facts that are seconds."""


@pytest.mark.slow  # two nodes of a cluster start, and each worker imports torch
def test_both_machines_run_cells_of_every_kind_and_give_inline_s_bits(
    two_machines: Cluster, tmp_path: Path
) -> None:
    data, told = written(tmp_path / "data"), Told()
    inline, there = (Place(tmp_path / name, data) for name in ("inline", "ray"))
    cells = [*(Located(cell) for cell in KINDS), NOISED.lasting(2)]
    RayEngine(None, RaySection(address=two_machines.address)).run(cells, there, told)
    InlineEngine(1, 1).run(cells, inline, Told())
    outcomes = {cell.arm: there.shelf.get(cell) for cell in cells}
    assert len({outcomes[cell.arm].facts[NODE] for cell in KINDS}) == 2, "both machines ran cells"
    for cell in cells:
        assert without_node(there.shelf.get(cell)) == without_node(inline.shelf.get(cell)), cell.arm
        assert len(there.shelf.get(cell).clock) == cell.rounds
    assert sorted(told.ended) == sorted((cell.arm, cell.seed) for cell in cells)


def test_a_cell_with_a_server_leaves_its_core_to_its_blocks() -> None:
    assert own_cores(NOISED) == 0
    assert {own_cores(cell) for cell in KINDS} == {1}
