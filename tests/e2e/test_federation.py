"""A server and its clients as real processes: they learn, clients and servers die, strangers send garbage."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from node.system.errors import UserError
from scenarios.clients.choices import Clients, MechanismChoice
from scenarios.clients.poisons import Attackers, LabelFlip, SignFlip
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.engines.nodes import ProcessesEngine
from scenarios.federated.cell import FederatedCell
from scenarios.study.cells import Outcome
from scenarios.study.costs import DOWN, MEASURED, UP
from tests.e2e.displays import Told
from tests.own_studies import NOISED, PLAIN, REMEMBERING, SHRINKING

DEADLY = "tests.e2e.deadly_mechanism:Deadly"
TOLERANCE = 0.01
"""Tolerance in accuracy, compared with engine inline without noise: one of the 114 test rows, or 0.009.

The order of summation differs, and nothing else.
"""
NOISY_TOLERANCE = 0.05
"""Tolerance for the mean of the last rounds if every run draws its own noise."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "out", tmp_path / "data")


def inline(cell: FederatedCell, tmp_path: Path) -> Outcome:
    told = Told()
    InlineEngine(1, 1).run([cell], Place(tmp_path / "inline", tmp_path), told)
    return told.ended[cell.arm]


def deadly(step: str, nth: int, scar: Path, way: str = "kill", arm: str = "deadly") -> FederatedCell:
    """All 5 clients take part in every round, so that a node's nth upload belongs to round n."""
    parameters = {"clients_per_round": 5, "step": step, "nth": nth, "scar": str(scar), "way": way}
    return replace(PLAIN, arm=arm, mechanism=MechanismChoice(DEADLY, parameters))


def children() -> list[str]:
    return [child.name for child in active_children()]


def replayed(outcome: Outcome) -> dict[str, object]:
    """The facts that every engine gives alike: without the digest of the model and the measured bytes."""
    return {
        name: fact for name, fact in outcome.facts.items() if name not in ("model sha256", UP, DOWN, MEASURED)
    }


def test_real_nodes_learn_as_engine_inline_does(place: Place, tmp_path: Path) -> None:
    """Also where nodes remember, share clients, forge, and keep their clients' controls."""
    own = MechanismChoice(SHRINKING, {"clients_per_round": 3})
    mixed = replace(
        PLAIN,
        arm="mixed",
        mechanism=own,
        clients=Clients("iid", 14),
        attackers=Attackers(0.6, LabelFlip(2), SignFlip(0.5)),
    )
    scaffold = replace(PLAIN, arm="drift", mechanism=MechanismChoice("scaffold", {"clients_per_round": 3}))
    noised = replace(NOISED, clients=Clients("iid", 3)).lasting(20)
    cells, told = [REMEMBERING, mixed, scaffold, noised], Told()
    ProcessesEngine(1).run(cells, place, told)

    assert children() == []
    assert len(list((place.folder / "nodes" / "mixed-0").glob("client-*.log"))) == 12
    for cell in cells[:2]:
        found, expected = told.ended[cell.arm], inline(cell, tmp_path)
        for one, other in zip(found.figures, expected.figures, strict=True):
            assert abs(one - other) <= TOLERANCE
        assert replayed(found) == replayed(expected)
        assert found.facts[MEASURED] is True
        for moved in (UP, DOWN):
            vectors, measured = (float(str(outcome.facts[moved])) for outcome in (expected, found))
            assert 0.9 * vectors < measured < 1.1 * vectors  # clients of one node share its model
        assert [number for arm, number in told.rounds if arm == cell.arm] == list(range(1, 9))
        assert place.shelf.get(cell) == found
    found, expected = told.ended["drift"], inline(scaffold, tmp_path)
    control = "norm of the server's control"
    assert found.facts[control] == pytest.approx(expected.facts[control], rel=1e-4)
    assert found.final == pytest.approx(expected.final, abs=TOLERANCE)
    honest = inline(replace(mixed, arm="honest", attackers=PLAIN.attackers), tmp_path)
    gaps = zip(honest.figures, told.ended["mixed"].figures, strict=True)
    assert max(fair - forged for fair, forged in gaps) > 5 * TOLERANCE
    found, expected = told.ended["noised"], inline(noised, tmp_path)
    assert found.facts["model sha256"] != expected.facts["model sha256"], "noise of its own"
    assert abs(sum(found.figures[-8:]) - sum(expected.figures[-8:])) / 8 < NOISY_TOLERANCE
    same = {name for name in replayed(expected) if "accuracy" not in name}
    assert {name: found.facts[name] for name in same} == {name: expected.facts[name] for name in same}


def test_a_killed_client_node_is_missed_and_a_killed_server_ends_the_run_and_the_same_folder_goes_on(
    place: Place, tmp_path: Path
) -> None:
    missed = deadly("upload", 3, tmp_path / "a client's", arm="missed")
    cells = [missed, deadly("combine", 3, tmp_path / "scar")]
    told = Told()
    with pytest.raises(UserError) as caught:
        ProcessesEngine(1).run(cells, place, told)

    outcome = told.ended["missed"]
    assert (tmp_path / "a client's").exists()
    assert outcome.facts["missing uploads"] == 6  # rounds 3 to 8
    assert outcome.final > 0.9
    log = (place.folder / "nodes" / "missed-0" / "server.log").read_text()
    assert log.count(" lost: ") == 1
    assert str(caught.value).startswith("deadly, seed 0: server node ended with signal SIGKILL: ")
    assert "\n" not in str(caught.value)
    assert children() == []
    assert list(place.folder.rglob("*.sock")) == []
    assert [place.shelf.holds(cell) for cell in cells] == [True, False]
    logs = (place.folder / "nodes" / "deadly-0").glob("client-*.log")
    lines = [log.read_text().splitlines() for log in logs]
    assert len(lines) == 5
    assert all(len(said) == 1 and "the server at" in said[0] and "is gone: " in said[0] for said in lines)

    ProcessesEngine(1).run(cells[1:], place, told)
    assert [place.shelf.holds(cell) for cell in cells] == [True, True]
    assert told.ended["deadly"].facts["missing uploads"] == 0


def test_a_client_node_that_fails_by_itself_ends_the_run_with_what_it_said(
    place: Place, tmp_path: Path
) -> None:
    cell = deadly("upload", 2, tmp_path / "scar", "raise")
    with pytest.raises(
        UserError, match=r"deadly, seed 0: client node \d ended with exit status 1: "
    ) as caught:
        ProcessesEngine(1).run([cell], place, Told())
    assert "RuntimeError: the scales are stuck (log: " in str(caught.value)
    assert children() == []
    assert not place.shelf.holds(cell)
