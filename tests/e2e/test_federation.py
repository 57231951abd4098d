"""A server and its clients as real processes: they learn, clients and servers die, strangers send garbage."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest
from rich.console import Console

from node.errors import UserError
from node.task.load import load_task
from protocol.federation import tags
from protocol.wire import codec
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.messages import Done, Enlist, UploadPiece
from scenarios.clients.choices import Clients, MechanismChoice
from scenarios.clients.poisons import Attackers, LabelFlip, SignFlip
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.engines.nodes import ProcessesEngine
from scenarios.federated.cell import FederatedCell
from scenarios.frame.harness import run
from scenarios.frame.spec import Request
from scenarios.runs.run import scenario_of
from scenarios.study.cells import Cell, Outcome
from scenarios.study.costs import DOWN, MEASURED, UP
from scenarios.swarms.cells import SwarmCell
from tests.e2e.displays import Told
from tests.e2e.test_open_port import Port
from tests.own_studies import NOISED, PLAIN, REMEMBERING, SHRINKING, STUDY

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


def compared(cells: list[FederatedCell], place: Place, tmp_path: Path) -> None:
    """Runs the cells at the same time; checks that each result is that of engine inline."""
    told = Told()
    ProcessesEngine(2).run(cells, place, told)

    assert children() == []
    for cell in cells:
        found, expected = told.ended[cell.arm], inline(cell, tmp_path)
        for one, other in zip(found.figures, expected.figures, strict=True):
            assert abs(one - other) <= TOLERANCE
        assert replayed(found) == replayed(expected)
        assert found.facts[MEASURED] is True
        for moved in (UP, DOWN):
            vectors, measured = (float(str(outcome.facts[moved])) for outcome in (expected, found))
            assert vectors < measured < 1.5 * vectors
        assert [number for arm, number in told.rounds if arm == cell.arm] == list(range(1, 9))
        assert place.shelf.get(cell) == found


def test_real_nodes_learn_as_engine_inline_does(place: Place, tmp_path: Path) -> None:
    own = replace(PLAIN, arm="own", mechanism=MechanismChoice(SHRINKING, {"clients_per_round": 3}))
    compared([PLAIN, own], place, tmp_path)


def test_real_nodes_remember_as_clients_of_engine_inline_do(place: Place, tmp_path: Path) -> None:
    """The counts of state and clients are facts, which are equal."""
    compared([REMEMBERING], place, tmp_path)


def test_control_variates_stay_with_their_nodes(place: Place, tmp_path: Path) -> None:
    """Over real nodes the server's control is that of engine inline: each node kept its clients' controls."""
    cell = replace(PLAIN, arm="drift", mechanism=MechanismChoice("scaffold", {"clients_per_round": 3}))
    told, control = Told(), "norm of the server's control"
    ProcessesEngine(1).run([cell], place, told)
    found, expected = told.ended["drift"], inline(cell, tmp_path)
    assert found.facts[control] == pytest.approx(expected.facts[control], rel=1e-4)
    assert found.final == pytest.approx(expected.final, abs=TOLERANCE)


def test_attackers_poison_their_rows_and_forge_their_weights_in_their_own_nodes(
    place: Place, tmp_path: Path
) -> None:
    poisoned = replace(PLAIN, arm="poisoned", attackers=Attackers(0.6, LabelFlip(2)))
    forged = replace(PLAIN, arm="forged", attackers=Attackers(0.4, None, SignFlip(0.5)))
    compared([poisoned, forged], place, tmp_path)
    honest = inline(PLAIN, tmp_path).final
    assert all(place.shelf.get(cell).final < honest - TOLERANCE for cell in (poisoned, forged))


def test_more_clients_than_nodes_share_them(place: Place, tmp_path: Path) -> None:
    shared = replace(PLAIN, arm="shared", clients=Clients("iid", 14))
    compared([shared], place, tmp_path)
    assert len(list((place.folder / "nodes" / "shared-0").glob("client-*.log"))) == 12


def test_noise_of_a_live_node_is_new_each_time_and_costs_what_a_replay_says(
    place: Place, tmp_path: Path
) -> None:
    noised, told = replace(NOISED, clients=Clients("iid", 3)), Told()
    ProcessesEngine(1).run([noised.lasting(20)], place, told)
    expected = inline(noised.lasting(20), tmp_path)

    found = told.ended["noised"]
    assert found.facts["model sha256"] != expected.facts["model sha256"]
    assert abs(sum(found.figures[-8:]) - sum(expected.figures[-8:])) / 8 < NOISY_TOLERANCE
    same = {name for name in replayed(expected) if "accuracy" not in name}
    assert {name: found.facts[name] for name in same} == {name: expected.facts[name] for name in same}


def test_a_client_node_that_is_killed_inside_a_round_is_missed(place: Place, tmp_path: Path) -> None:
    told = Told()
    ProcessesEngine(1).run([deadly("upload", 3, tmp_path / "scar")], place, told)

    outcome = told.ended["deadly"]
    assert (tmp_path / "scar").exists()
    assert outcome.facts["missing uploads"] == 6  # rounds 3 to 8
    assert outcome.final > 0.9
    log = (place.folder / "nodes" / "deadly-0" / "server.log").read_text()
    assert log.count(" lost: ") == 1
    assert children() == []


def test_a_client_node_that_is_killed_from_outside_is_missed(place: Place) -> None:
    def kill(cell: Cell, number: int) -> None:
        if number == 1:
            (pid,) = (child.pid for child in active_children() if child.name == "client node 2")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    told, cell = Told(kill), replace(PLAIN.lasting(100), arm="long")
    ProcessesEngine(1).run([cell], place, told)

    outcome = told.ended["long"]
    assert len(outcome.figures) == 100
    assert outcome.final > 0.9
    assert 0 < float(str(outcome.facts["missing uploads"])) < 100


def test_a_server_that_is_killed_ends_the_run_with_one_line_and_the_same_folder_goes_on(
    place: Place, tmp_path: Path
) -> None:
    cells = [PLAIN, deadly("combine", 3, tmp_path / "scar")]
    told = Told()
    with pytest.raises(UserError) as caught:
        ProcessesEngine(1).run(cells, place, told)

    assert str(caught.value).startswith("deadly, seed 0: server node ended with signal SIGKILL: ")
    assert "\n" not in str(caught.value)
    assert children() == []
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


def test_garbage_at_the_open_ports_is_dropped_and_the_rounds_go_on(place: Place) -> None:
    """Raw bytes, malformed frames, and well-formed ones of a stranger without the run's secret."""
    stranger = bytes(range(32))
    frames = [
        codec.encode(tags.tag(message, stranger)).join()
        for message in (
            Enlist(0, b"s" * 16, "127.0.0.1:1"),
            UploadPiece(b"s" * 16, 1, 0, 0, payload=bytes(4 * 266)),
            Done(b"s" * 16),
        )
    ]
    answers = []

    def shout(cell: Cell, number: int) -> None:
        if number == 1:
            log = (place.folder / "nodes" / "long-0" / "server.log").read_text()
            ends = [line.split()[-1] for line in log.splitlines() if " joined: at " in line]
            for port in map(Port, ends[:2]):
                port.raw(bytes(range(256)) * 64)
                answers.extend(port.post(frame) for frame in (*frames, b"nonsense"))
                answers.append(port.post(bytes(MAX_FRAME_BYTES + 1)))
                port.say(b"nonsense", "text", *frames)

    told, cell = Told(shout), replace(PLAIN.lasting(150), arm="long")
    ProcessesEngine(1).run([cell], place, told)

    assert answers == 2 * [400, 400, 400, 400, 413]
    assert told.ended["long"].facts["missing uploads"] == 0
    assert told.ended["long"].final > 0.9


def test_a_swarm_s_cell_is_run_by_its_peers(place: Place) -> None:
    cell = SwarmCell("swarm", load_task("digits", []), 3).lasting(2)
    told = Told()
    ProcessesEngine(1).run([cell], place, told)

    assert place.shelf.get(cell) == told.ended["swarm"]
    assert told.ended["swarm"].final > 0.5
    assert [number for _, number in told.rounds][-1] == 2
    peers = place.folder / "nodes" / "swarm-0" / "peers"
    assert sorted(path.name for path in peers.iterdir()) == ["0", "1", "2"]


def test_a_study_runs_with_real_nodes_from_the_command_line_s_request(tmp_path: Path) -> None:
    request = Request(engine="processes", quick=True, out=tmp_path / "out")
    run(scenario_of(STUDY), request, Console(quiet=True))

    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["configuration"]["engine"] == "processes"
    assert sorted(path.name for path in (tmp_path / "out" / "nodes").iterdir()) == ["plain-0", "plain-1"]
