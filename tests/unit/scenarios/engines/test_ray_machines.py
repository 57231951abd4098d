"""Engine `ray` on two machines: two nodes of a Ray cluster on loopback, with a core each.

Every kind of cell runs there, and gives the bits of engine `inline`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from node.system.errors import UserError
from scenarios.engines.choice import RaySection
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.frame.work import Call
from scenarios.study.cells import Cell, Outcome
from scenarios.swarms.baselines import baselines, run_baselines
from scenarios.swarms.nodes import SwarmPlan
from scenarios.swarms.progress import PeerProgress
from scenarios.systems.attacks.claims import STUDY as ATTACKS
from tests import dealt_cells
from tests.criteo_rows import SMALL, written
from tests.own_studies import NOISED, REMEMBERING, Told, own
from tests.ray_sessions import only_session

pytest.importorskip("ray")
import ray
from ray.cluster_utils import Cluster

from node.task.load import load_task
from scenarios.engines.ray import RayEngine, do_in_cluster, own_cores
from scenarios.engines.ray_cluster import OWN_CLUSTER, connected
from scenarios.engines.ray_news import News
from scenarios.engines.ray_swarm import RETURNED, run_swarm_in_cluster
from scenarios.swarms.cells import SwarmCell, changed_task
from scenarios.swarms.lying import Lie, LyingSwarmCell
from scenarios.swarms.share_errors import ShareErrorCell
from tests.located import NODE, Located

STORE_BYTES = 80 * 1024 * 1024
DIGITS = changed_task(load_task("digits", ()), {"train": {"rounds": 2, "epochs": 1}})
SWARM = SwarmCell("swarm", changed_task(DIGITS, {"privacy": {"mechanism": "ldp", "epsilon": 100}}), 5)
BREAKING = own("tests.own_mechanisms:Breaking", {"clients_per_round": 3})
MEMBERSHIP = replace(
    next(arm.cell for arm in ATTACKS.arms if arm.arm == "membership-none"), rows=40, victims=1, shadows=2
)
KINDS: tuple[Cell, ...] = (
    SWARM,
    SWARM.seeded(1),
    LyingSwarmCell("lied", DIGITS, 5, Lie(0.2), 1),
    ShareErrorCell("shares", DIGITS, 5),
    replace(dealt_cells.peers(), arm="steps"),
    replace(dealt_cells.server(dealt_cells.LOCAL), arm="server"),
    SMALL,
    MEMBERSHIP,
)


@pytest.fixture(scope="module")
def two_machines() -> Iterator[Cluster]:
    """A cluster of two nodes on loopback, with a core each; each has its own raylet and object store."""
    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    with only_session(), pytest.MonkeyPatch.context() as patch:
        for name, value in OWN_CLUSTER.items():
            patch.setenv(name, value)
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


@pytest.mark.sampled
@pytest.mark.slow  # two nodes of a cluster start, and each worker imports torch
def test_both_machines_give_inline_s_bits_for_all_kinds_and_end_at_a_cell_that_fails(two_machines, tmp_path):
    data, told = written(tmp_path / "data"), Told()
    inline, there = (Place(tmp_path / name, data) for name in ("inline", "ray"))
    cells = [*(Located(cell) for cell in KINDS), NOISED.lasting(2), REMEMBERING.lasting(3)]
    engine = RayEngine(None, RaySection(address=two_machines.address))
    with pytest.raises(UserError, match=r"^own, seed 0: the scales are stuck \(log: ") as raised:
        engine.run([*cells, BREAKING], there, told)
    assert raised.value.status == 1
    assert "ray::train_alone" in there.shelf.log(BREAKING).read_text()
    assert not there.shelf.holds(BREAKING)
    if left := [cell for cell in cells if not there.shelf.holds(cell)]:
        assert len(left) == 1, "what is finished stays; one more may have been under way"
        engine.run(left, there, told)
    InlineEngine(1, 1).run(cells, inline, Told())
    outcomes = {cell.arm: there.shelf.get(cell) for cell in cells}
    assert len({outcomes[cell.arm].facts[NODE] for cell in KINDS}) == 2, "both machines ran cells"
    for cell in cells:
        assert without_node(there.shelf.get(cell)) == without_node(inline.shelf.get(cell)), cell.arm
        assert len(there.shelf.get(cell).clock) == cell.rounds
        rounds, figures = told.rounds[cell.arm, cell.seed], there.shelf.get(cell).figures
        assert rounds == [(number, figures[number - 1]) for number, _ in rounds]
    assert sorted(told.ended) == sorted((cell.arm, cell.seed) for cell in cells)


class Quiet:
    """A display of a swarm that keeps what it was shown last."""

    def __init__(self) -> None:
        self.last: list[int] = []
        self.ended: list[str] = []

    def stage(self, text: str) -> None:
        """See Display."""

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """See Display."""
        self.last = [peer.round for peer in peers]

    def calls(self, name: str, calls: Sequence[Call]) -> Quiet:
        """See Display."""
        return self

    def round_ended(self, call: Call, round: int, figure: float) -> None:
        """See Watch."""

    def call_ended(self, call: Call) -> None:
        """See Watch."""
        self.ended.append(call.name)


@pytest.mark.sampled
@pytest.mark.slow  # as above; then three nodes start
def test_real_nodes_and_their_baselines_run_in_the_cluster_and_what_they_wrote_comes_back(
    two_machines: Cluster, tmp_path: Path
) -> None:
    plan, display = SwarmPlan(DIGITS, 3, 2, tmp_path), Quiet()
    bare = Call("none", "scenarios.swarms.replay:private_curve", (DIGITS, 3, 1), 1, tmp_path / "none.json")
    with connected(two_machines.address, None, None) as at_once:
        assert at_once == 2
        peers = run_swarm_in_cluster(plan, display.peers)
        trained = run_baselines(plan, display, partial(do_in_cluster, at_once=at_once))
        again = run_swarm_in_cluster(plan, Quiet().peers)
        with pytest.raises(UserError, match=r"^none: none gives no guarantee: there is nothing to compare$"):
            do_in_cluster([bare], Quiet(), at_once)
    assert not bare.path.exists()
    assert [(peer.summary.rounds, peer.summary.aggregated) for peer in peers] == [(2, 2)] * 3
    assert again == peers
    assert {path.name for path in (tmp_path / "peers").rglob("*") if path.is_file()} == set(RETURNED)
    assert display.last == [2, 2, 2]
    assert sorted(display.ended) == ["alone 0", "alone 1", "alone 2", "pooled"]
    curve = baselines(plan)[1].result(lambda number, figure: None)
    assert trained.alone[1].values == curve.values
    assert not (tmp_path / "baselines" / "alone-1.log").exists()


def test_news_are_taken_once_and_a_cell_with_a_server_leaves_its_core_to_its_blocks():
    told = News()
    told.told(("plain", 0, 1, 0.5))
    assert (told.taken(), told.taken()) == ([("plain", 0, 1, 0.5)], [])
    assert own_cores(NOISED) == 0
    assert {own_cores(cell) for cell in KINDS} == {1}
