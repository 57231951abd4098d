"""Noise and its ledger in real nodes: charged once, before a byte leaves, over restarts, within budget."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mechanisms.accounting.ledger import (
    Event,
    Gaussian,
    Ledger,
    SampledGaussian,
    event_from_text,
    releases_noise_multiplier,
    spent,
)
from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import (
    ADDITIVE,
    Swarm,
    fact,
    frozen,
    history,
    one_digest,
    rows,
    settings,
    summary,
    wait_status,
)
from tests.e2e.test_bad_input import alone, goes_on, only_the_key_is_left, second
from tests.openings import after_opening

ROUNDS, BUDGET, DELTA = 4, 8.0, 1e-5
SPENT = "budget-spent"
OWN = "tests.own_mechanisms:Counting"
RAW = ("privacy.window_source=raw", "privacy.public_radius=true")


LONG = 14
"""Rounds: enough that a restarted node finds the others still running, even on a busy machine."""


def private(mechanism: str, rounds: int = ROUNDS) -> tuple[str, ...]:
    """Settings for a budget over `rounds` rounds."""
    return (f"privacy.mechanism={mechanism}", f"privacy.epsilon={BUDGET:g}", f"train.rounds={rounds}")


@dataclass(frozen=True)
class Charge:
    """A row of a node's ledger."""

    sid: bytes
    round: int
    events: tuple[Event, ...]
    epsilon: float | None
    delta: float | None


def charges(out: Path) -> list[Charge]:
    found = rows(out, "select sid, round, events, epsilon, delta from ledger order by round")
    return [
        Charge(sid, round, tuple(map(event_from_text, events.splitlines())), epsilon, delta)
        for sid, round, events, epsilon, delta in found
    ]


def pending(out: Path) -> list[Event]:
    return [event_from_text(line) for line in (fact(out, "pending") or "").splitlines()]


def is_sound(out: Path, within: float = BUDGET) -> list[Charge]:
    """Checks the ledger: one row for each offer, with the running total; the summary has the last one.

    The file beside the key must agree.
    """
    found, ledger = charges(out), Ledger(())
    for charge in found:
        ledger = ledger.adding(charge.events)
        total = spent(ledger, DELTA)
        assert charge.delta == DELTA
        assert charge.epsilon == pytest.approx(total.epsilon, rel=1e-9)
    assert all(one.epsilon < other.epsilon for one, other in pairwise(found))
    assert len({charge.round for charge in found}) == len({charge.sid for charge in found}) == len(found)
    said = summary(out)
    assert said["offers"] == len(found)
    assert said["privacy"]["epsilon_spent"] == found[-1].epsilon
    assert said["epsilon"] == pytest.approx(found[-1].epsilon, abs=1e-6)
    assert said["delta"] == said["privacy"]["delta"] == DELTA
    assert found[-1].epsilon <= within * (1 + 1e-9)
    lines = (out / "node.key.spent").read_text().splitlines()
    beside = [json.loads(line.partition(" ")[2]) for line in lines]
    assert [(one["sid"], one["round"]) for one in beside] == [(one.sid.hex(), one.round) for one in found]
    return found


# -- a run in which nothing goes wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        ("dp-sgd", ()),
        ("ldp", ()),
        ("aldp", RAW),
        ("aldp", ("privacy.window=2",)),
        ("aldp", ("privacy.window_source=quantile",)),
    ],
    ids=["dp-sgd", "ldp", "aldp-raw", "aldp", "aldp-quantile"],
)
def test_every_offer_is_charged_once_and_all_end_alike(
    make_swarm, mechanism: str, more: tuple[str, ...]
) -> None:
    swarm: Swarm = make_swarm(3, ROUNDS, *private(mechanism), *more)
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    for number, end in enumerate(ends):
        out = swarm.out(number)
        found = is_sound(out)
        assert (end["aggregated"], end["fallbacks"], len(found)) == (ROUNDS, 0, ROUNDS)
        assert found[-1].epsilon == pytest.approx(BUDGET, rel=0.01), "the budget is for just these rounds"
        kinds = {type(event) for charge in found for event in charge.events}
        assert kinds == {SampledGaussian if mechanism == "dp-sgd" else Gaussian}
        lines = history(out)
        assert [line["epsilon"] for line in lines] == pytest.approx([one.epsilon for one in found], abs=1e-6)
        assert {line["delta"] for line in lines} == {DELTA}
        _facts_are_told(end["privacy"], mechanism)
        _memory_is_kept(json.loads(fact(out, "memory")), mechanism, more)
        assert pending(out) == []
        assert [line["clipped"] for line in lines] == [0] * ROUNDS, "the bound leaves room for the noise"


def _facts_are_told(told: dict[str, Any], mechanism: str) -> None:
    by_record = mechanism == "dp-sgd"
    assert told["mechanism"] == mechanism
    assert (told["epsilon_budget"], told["epsilon_stated"], told["norm"]) == (BUDGET, BUDGET, "L2")
    assert told["epsilon_remaining"] == pytest.approx(BUDGET - told["epsilon_spent"], abs=1e-6)
    assert told["accountant"] == ("PLD" if by_record else "closed form")
    assert told["neighbours"] == ("add or remove" if by_record else "replace")
    assert ("one record" in told["unit"]) == by_record


def _memory_is_kept(memory: list[list[float]], mechanism: str, more: tuple[str, ...]) -> None:
    """Checks a mechanism's stored memory: recent norms of updates or aggregates, a radius, or nothing."""
    if mechanism != "aldp":
        assert memory == []
        return
    (row,) = memory
    assert len(row) == {RAW: 3, ("privacy.window=2",): 2}.get(more, 1)
    assert min(row) >= 0


@pytest.mark.parametrize(
    ("mechanism", "least", "most"), [("none", 0, 1e-5), ("ldp", 0.9, 1.1), ("dp-sgd", 0.003, 9)]
)
def test_noise_is_new_in_every_run_whatever_the_seeds(
    nursery: Nursery, tmp_path: Path, mechanism: str, least: float, most: float
) -> None:
    """Two runs with the same data and --seed: without noise their models are equal up to rounding."""
    bases = []
    for run in ("one", "other"):
        swarm = Swarm(nursery, tmp_path / run, 3, 1, private(mechanism, 1))
        one_digest([node.ends_well() for node in swarm.start_all()])
        tensors = load_file(swarm.out(0) / "model.safetensors")
        bases.append(np.concatenate([tensors[name].ravel() for name in sorted(tensors)]))
    apart = float(np.sqrt(np.mean((bases[0] - bases[1]) ** 2)))
    # Of two means of three offers with noise of 2 r z each, as ldp promises for r = 1.
    expected = 2 * releases_noise_multiplier(BUDGET, DELTA, 1) * np.sqrt(2 / 3)
    assert least <= apart / expected <= most


def test_a_mechanism_of_ones_own_runs_in_real_nodes(make_swarm) -> None:
    """It is charged by its own events and stopped by its own budget, and its memory is stored."""
    swarm: Swarm = make_swarm(3, ROUNDS, f"privacy.mechanism={OWN}", "privacy.epsilon=8", "train.rounds=2")
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    affordable = spent(Ledger(((Gaussian(1.0), 2),)), DELTA).epsilon
    assert affordable < BUDGET < spent(Ledger(((Gaussian(1.0), 3),)), DELTA).epsilon
    for number, end in enumerate(ends):
        found = is_sound(swarm.out(number))
        assert [charge.events for charge in found] == [(Gaussian(1.0),)] * 2
        assert (end["privacy"]["unit"], end["privacy"]["mechanism"]) == ("one ward", "counting")
        assert json.loads(fact(swarm.out(number), "memory")) == [[2.0]]
        assert [line["reason"] for line in history(swarm.out(number))] == [None, None, SPENT, SPENT]


def test_without_privacy_nothing_is_charged(make_swarm) -> None:
    swarm: Swarm = make_swarm(3, 2)
    for node in swarm.start_all():
        end = node.ends_well()
        assert (end["epsilon"], end["delta"], end["privacy"]) == (None, None, None)
    for out in map(swarm.out, range(3)):
        assert [(charge.events, charge.epsilon) for charge in charges(out)] == [((), None)] * 2
        assert {(line["epsilon"], line["delta"]) for line in history(out)} == {(None, None)}


# -- killed --------------------------------------------------------------------------------------------

MEMBERS, VICTIM = 4, 3
NO_SUM = Fate("Sum", nth=1, session=2)
AFTER_THE_CHARGE = [
    pytest.param(NO_SUM, id="no-sum-sent"),
    pytest.param(Fate("Sum", nth=2, session=2), id="one-sum-sent"),
    pytest.param(Fate("Sum", nth=3, session=2, moment="after"), id="all-sums-sent"),
]
BEFORE_THE_CHARGE = [
    pytest.param(Fate("Accepted", session=2, way="in"), id="ready"),
    pytest.param(Fate("Share", nth=1, session=2, way="in"), id="no-share-received"),
    pytest.param(Fate("Share", nth=MEMBERS - 1, session=2, way="in"), id="one-share-missing"),
]
"""With the last share the offer is charged, whether or not the node's own shares have left by then."""


@dataclass(frozen=True)
class Death:
    """What the victim's folder contained after its death, and the result after its restart."""

    before: list[Charge]
    pending: list[Event]
    fresh: bool
    memory: str | None
    after: list[Charge]


def dies_and_comes_back(swarm: Swarm, fate: Fate, offers: Path) -> Death:
    nodes = swarm.start_all({VICTIM: Orders(fate=fate, offers=offers)})
    others, victim, out = nodes[:VICTIM], nodes[VICTIM], swarm.out(VICTIM)
    assert victim.status() == -signal.SIGKILL
    may_bind = (
        fate == NO_SUM or fate.kind == "Share"
    )  # the others may have voted, and wait for the victim's sum
    for node in others:
        node.event_after("round", lambda event: event["round"] > 2 - may_bind)
    with frozen(others):
        left = (charges(out), pending(out), fact(out, "fresh") is not None, fact(out, "memory"))
        again = swarm.start(VICTIM, orders=Orders(offers=offers))
        again.event("training")
    one_digest([node.ends_well() for node in (*others, again)])
    after = is_sound(out)
    noted = [line.split() for line in offers.read_text().splitlines()]
    assert [sid for sid, _ in noted] == [charge.sid.hex() for charge in after], "charged is what was offered"
    assert len({vector for _, vector in noted}) == len(noted), "no vector was offered twice"
    return Death(*left, after)


@pytest.mark.parametrize("mechanism", ["dp-sgd", "aldp"])
@pytest.mark.parametrize("fate", AFTER_THE_CHARGE)
def test_what_was_charged_before_a_kill_is_charged_once(
    make_swarm, tmp_path: Path, mechanism: str, fate
) -> None:
    swarm: Swarm = make_swarm(MEMBERS, LONG, ADDITIVE, *private(mechanism, LONG))
    death = dies_and_comes_back(swarm, fate, tmp_path / "offers")
    assert [charge.round for charge in death.before] == [1, 2]
    assert (death.pending, death.fresh) == ([], False), "what is spent is not fresh"
    assert len(json.loads(death.memory or "")) == (1 if mechanism == "aldp" else 0)
    assert death.after[:2] == death.before
    assert [charge.round for charge in death.after].count(2) == 1
    assert len(death.after) > 2, "it took part again"
    assert all(len(charge.events) == 1 for charge in death.after)


@pytest.mark.parametrize("mechanism", ["dp-sgd", "ldp"])
@pytest.mark.parametrize("fate", BEFORE_THE_CHARGE)
def test_an_offer_that_a_kill_prevented_costs_nothing(
    make_swarm, tmp_path: Path, mechanism: str, fate
) -> None:
    """With dp-sgd its training is pending; the next offer, which contains it, is charged for it."""
    swarm: Swarm = make_swarm(MEMBERS, LONG, ADDITIVE, *private(mechanism, LONG))
    death = dies_and_comes_back(swarm, fate, tmp_path / "offers")
    assert [charge.round for charge in death.before] == [1]
    assert death.fresh
    assert len(death.pending) == (1 if mechanism == "dp-sgd" else 0)
    assert death.after[:1] == death.before
    trained = [len(charge.events) for charge in death.after]
    assert trained[:2] == ([1, 2] if mechanism == "dp-sgd" else [1, 1])
    assert set(trained[2:]) == {1}


def test_what_is_remembered_outlives_a_base_that_was_fetched(make_swarm) -> None:
    """Absent for more rounds than the others keep certificates: it still has its window of norms."""
    swarm: Swarm = make_swarm(MEMBERS, 8, *private("aldp", 8), "aggregation.group_timeout_s=7")
    nodes = swarm.start_all({VICTIM: Orders(fate=Fate("train", nth=3))})
    others, out = nodes[:VICTIM], swarm.out(VICTIM)
    assert nodes[VICTIM].status() == -signal.SIGKILL
    (before,) = json.loads(fact(out, "memory"))
    assert len(before) == 2
    for node in others:
        node.event("round", round=6)
    with frozen(others):
        again = swarm.start(VICTIM)
        again.event("training")
    one_digest([node.ends_well() for node in (*others, again)])
    assert "proved by the sessions that led to it" in again.event("caught-up")["how"]
    later = len(is_sound(out)) - len(before)
    assert later <= 2
    (row,) = json.loads(fact(out, "memory"))
    assert len(row) == min(3, 2 + later)
    assert row[0] in before


# -- the budget is spent -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["dp-sgd", "ldp"])
def test_rounds_beyond_the_budget_are_followed(make_swarm, mechanism: str) -> None:
    """--rounds goes two rounds beyond train.rounds, when no node has any budget left."""
    swarm: Swarm = make_swarm(3, ROUNDS, *private(mechanism, ROUNDS - 2))
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    for number, end in enumerate(ends):
        assert (end["rounds"], end["aggregated"], end["fallbacks"], end["finished"]) == (ROUNDS, 2, 2, True)
        lines = history(swarm.out(number))
        assert [line["reason"] for line in lines] == [None, None, SPENT, SPENT]
        assert [line["train_loss"] is None for line in lines] == [False, False, True, True]
        assert [charge.round for charge in is_sound(swarm.out(number))] == [1, 2]
        assert len({line["epsilon"] for line in lines[1:]}) == 1


def test_a_node_that_has_spent_its_budget_early_follows_the_others(make_swarm) -> None:
    """Started and killed three times before the others start: one offer holds three rounds of training."""
    rounds = 3
    swarm: Swarm = make_swarm(MEMBERS, rounds, *private("dp-sgd", rounds))
    early, out = swarm.endpoints[VICTIM], swarm.out(VICTIM)
    for life in range(rounds):
        node = swarm.start(VICTIM)
        wait_status(early, lambda said: said["phase"] == "group")
        assert len(pending(out)) == life + 1
        node.send(signal.SIGKILL)
        assert node.status() == -signal.SIGKILL
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    (charge,) = is_sound(out)
    assert len(charge.events) == rounds
    lines = history(out)
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert [line["reason"] for line in lines] == [None, SPENT, SPENT]
    assert [line["participants"] for line in history(swarm.out(0))] == [4, 3, 3]
    assert all(end["aggregated"] == rounds for end in ends[:VICTIM])
    assert (ends[VICTIM]["offers"], ends[VICTIM]["finished"]) == (1, True)


# -- wrong values --------------------------------------------------------------------------------------


WRONG = {
    "epsilon=0": (("privacy.epsilon=0",), ("privacy.epsilon = 0",)),
    "delta=2": (("privacy.delta=2",), ("privacy.delta = 2", "below 1")),
    "radius": (("privacy.clipping_radius=1e30",), ("privacy.clipping_radius = 1e+30",)),
    "nonsense": (("privacy.mechanism=nonsense",), ("'nonsense'", "'dp-sgd'", "'package.module:Class'")),
    "no such module": (("privacy.mechanism=a.b:C",), ("'a.b:C'", "cannot be imported")),
    "out of order": (("privacy.mechanism=tests.own_mechanisms:Raising",), ("is out of order",)),
    "unfinished": (("privacy.mechanism=tests.own_mechanisms:Unfinished",), ("it has no aggregated",)),
    "dp-sgd with linear-classic": (("privacy.calibration=linear-classic",), ("'linear-classic'", "'exact'")),
    "dp-sgd with batch norm": (("model.class=tests.own_models:Normed", "model.args={}"), ("BatchNorm1d",)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_one_line_and_nothing_is_written(
    nursery: Nursery, tmp_path: Path, name: str
) -> None:
    overrides, words = WRONG[name]
    out = tmp_path / "out"
    node = nursery.fork(
        *("--peers", free_endpoint(), "--out", str(out), "--shard", "0/3"),
        *settings("privacy.mechanism=dp-sgd", *overrides),
    )
    line = node.fails(2)
    for word in words:
        assert word in line
    assert after_opening("\n".join(node.out.all())) == ""
    assert not out.exists()


def test_batch_norm_is_fine_where_no_row_needs_a_gradient_of_its_own(make_swarm) -> None:
    swarm: Swarm = make_swarm(
        3, 1, *private("ldp", 1), "model.class=tests.own_models:Normed", "model.args={}"
    )
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)


def test_two_epsilons_in_one_swarm(nursery: Nursery, tmp_path: Path) -> None:
    ours = settings("privacy.mechanism=ldp", "privacy.epsilon=8")
    node, endpoint = alone(nursery, tmp_path, *ours)
    line = second(nursery, tmp_path, endpoint, *ours, "--set", "privacy.epsilon=4").fails(2)
    assert endpoint in line
    assert "privacy.epsilon is 4.0 here and 8.0 there" in line
    only_the_key_is_left(tmp_path / "b")
    assert "privacy.epsilon is 8.0 here and 4.0 there" in node.line("is in another swarm")
    goes_on(node, endpoint)
