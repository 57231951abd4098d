"""One of five real peers sends a large wrong update once, with and without the others' loss gates."""

from __future__ import annotations

import numpy as np
from safetensors.numpy import load_file

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.processes import Event, Process
from tests.e2e.swarm import Swarm, fact, history, one_digest

COUNT, ROUNDS, LIAR, LIE = 5, 8, 4, 4
GATE = ("--set", "aggregation.loss_gate=0.3")
LEARNING = ("train.epochs=2", "train.batch_size=16", "aggregation.protocol=additive")


def started(swarm: Swarm, *more: str, orders: dict[int, Orders] | None = None) -> list[Process]:
    """Starts all nodes; `more` are options for the honest ones, each of which has its own."""
    all_orders = {LIAR: Orders(lie=LIE), **(orders or {})}
    return [
        swarm.start(number, *(() if number == LIAR else more), orders=all_orders.get(number))
        for number in range(COUNT)
    ]


def refused(swarm: Swarm, number: int) -> list[Event]:
    """Returns the rounds in which a peer's gate refused a base."""
    return [line for line in history(swarm.out(number)) if line["rolled_back"]]


def ends(nodes: list[Process]) -> list[Event]:
    said = [node.ends_well() for node in nodes]
    one_digest(said)
    return said


def test_honest_peers_with_a_gate_lead_the_swarm_back(make_swarm) -> None:
    swarm = make_swarm(COUNT, ROUNDS, *LEARNING)
    nodes = started(swarm, *GATE)
    said = ends(nodes)
    assert all(end["accuracy"] > 0.85 for end in said), [end["accuracy"] for end in said]
    back = {number: refused(swarm, number) for number in range(COUNT)}
    assert [number for number, lines in back.items() if not lines] == [LIAR], "it has chosen no gate"
    for number in set(back) - {LIAR}:
        first = back[number][0]
        assert first["round"] >= LIE
        assert first["accuracy"] < 0.5, "the base that was agreed stays agreed"
        lowest, loss = first["rolled_back"]
        assert lowest + 0.3 < loss
        assert nodes[number].line("rolled back: loss on own rows")


def test_without_gates_the_lie_costs_rounds(make_swarm) -> None:
    swarm = make_swarm(COUNT, ROUNDS - 1, *LEARNING)
    said = ends(started(swarm))
    assert all(end["accuracy"] < 0.75 for end in said), [end["accuracy"] for end in said]
    assert not any(refused(swarm, number) for number in range(COUNT))


def test_a_peer_killed_after_it_refused_a_base_still_has_the_last_good_one(make_swarm) -> None:
    swarm = make_swarm(COUNT, ROUNDS + 1, *LEARNING)
    killed = 1
    nodes = started(swarm, *GATE, orders={killed: Orders(Fate("train", LIE + 1))})
    assert nodes[killed].status() == -9
    out = swarm.out(killed)
    good, base = fact(out, "good"), fact(out, "base_file")
    assert good != base
    assert (out / "vectors" / f"{good}.f32").exists()
    assert fact(out, "judged") in fact(out, "base")
    private = load_file(out / "private.safetensors")
    last_good = np.fromfile(out / "vectors" / f"{good}.f32", dtype="<f4")
    rolled_back = np.concatenate([private[name].ravel() for name in private])
    assert np.isin(rolled_back, last_good).all(), "the working model that it shows is the last good base"
    nodes[killed] = swarm.start(killed, *GATE)
    said = ends(nodes)
    assert all(end["accuracy"] > 0.85 for end in said), [end["accuracy"] for end in said]
