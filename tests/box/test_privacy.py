"""Noise and its ledger: charged once, before a byte leaves, over restarts and lost power, within budget."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from mechanisms.accounting.ledger import (
    NO_BOUND,
    Event,
    Gaussian,
    Ledger,
    SampledGaussian,
    privacy_spent,
    releases_noise_multiplier,
)
from node.data.dataset import Dataset
from node.options import NodeOptions
from protocol.wire.messages import Accepted, Share, Sum
from tests.box.box import SMALL, STEPS, Box, Rows, few_digits
from tests.box.invariants import ChargedFirst
from tests.box.ledgers import Charge, charges, pending, sound
from tests.box.moments import Moment, dies
from tests.run_folders import fact, summary

ROUNDS, BUDGET, DELTA = 4, 8.0, 1e-5
SPENT, ALL_SPENT = "budget-spent", "all-spent"
OWN = "tests.own_mechanisms:Counting"
RAW = ("privacy.window_source=raw", "privacy.public_radius=true")


def private(mechanism: str, rounds: int = ROUNDS) -> tuple[str, ...]:
    """Settings for a budget over `rounds` rounds; a step takes a quarter of the rows."""
    budget = (f"privacy.epsilon={BUDGET:g}", f"train.rounds={rounds}")
    return (f"privacy.mechanism={mechanism}", *budget, "train.batch_size=4")


def to_one_model(box: Box) -> None:
    """Runs the box to the end, where all nodes have ended well, with one model."""
    box.run_to_the_end()
    assert [node.status for node in box.nodes] == [0] * box.count
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1


def participants(box: Box, number: int) -> list[int]:
    return [line["participants"] for line in box.nodes[number].history]


# -- a run in which nothing goes wrong -----------------------------------------------------------------


@pytest.mark.sampled("dp-sgd", "ldp", "aldp-quantile")
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
    make_box, mechanism: str, more: tuple[str, ...]
) -> None:
    box = make_box(3, ROUNDS, *private(mechanism), *more)
    box.start_all()
    to_one_model(box)
    for node in box.nodes:
        found, lines = sound(node.folder, BUDGET, DELTA), node.history
        assert participants(box, node.number) == [3] * ROUNDS
        assert [charge.round for charge in found] == [1, 2, 3, 4]
        assert found[-1].epsilon == pytest.approx(BUDGET, rel=0.01), "the budget is for just these rounds"
        kinds = {type(event) for charge in found for event in charge.events}
        assert kinds == {SampledGaussian if mechanism == "dp-sgd" else Gaussian}
        assert [line["epsilon"] for line in lines] == pytest.approx([one.epsilon for one in found], abs=1e-6)
        assert {line["delta"] for line in lines} == {DELTA}
        _facts_are_told(node.summary["privacy"], mechanism)
        _memory_is_kept(json.loads(fact(node.folder, "memory")), mechanism, more)
        assert pending(node.folder) == ()
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
def test_noise_is_new_in_every_run_whatever_the_option_seed(
    make_box, mechanism: str, least: float, most: float
) -> None:
    """Two runs with the same data and --seed: without noise their models are equal up to rounding."""
    bases = []
    for seed in (1, 2):
        box = make_box(3, 1, *private(mechanism, 1), "model.args.sizes=[64,16,10]", seed=seed)
        box.start_all()
        to_one_model(box)
        tensors = load_file(box.nodes[0].folder / "model.safetensors")
        bases.append(np.concatenate([tensors[name].ravel() for name in sorted(tensors)]))
    apart = float(np.sqrt(np.mean((bases[0] - bases[1]) ** 2)))
    # Of two means of three offers with noise of 2 r z each, as ldp promises for r = 1.
    expected = 2 * releases_noise_multiplier(BUDGET, DELTA, 1) * np.sqrt(2 / 3)
    assert least <= apart / expected <= most


def test_a_mechanism_of_ones_own_is_charged_by_its_own_events_and_stopped_by_its_own_budget(
    make_box,
) -> None:
    box = make_box(3, ROUNDS, f"privacy.mechanism={OWN}", "privacy.epsilon=8", "train.rounds=2")
    box.start_all()
    to_one_model(box)
    affordable = privacy_spent(Ledger(((Gaussian(1.0), 2),)), DELTA).epsilon
    assert affordable < BUDGET < privacy_spent(Ledger(((Gaussian(1.0), 3),)), DELTA).epsilon
    for node in box.nodes:
        assert [charge.events for charge in sound(node.folder, BUDGET, DELTA)] == [(Gaussian(1.0),)] * 2
        privacy = node.summary["privacy"]
        assert (privacy["unit"], privacy["mechanism"]) == ("one ward", "counting")
        assert json.loads(fact(node.folder, "memory")) == [[2.0]]
        assert [line["reason"] for line in node.history] == [None, None, ALL_SPENT]


def test_without_privacy_only_the_first_offer_leaves_a_mark(make_box) -> None:
    box = make_box(3, 2)
    box.start_all()
    to_one_model(box)
    for node in box.nodes:
        assert {node.summary[name] for name in ("epsilon", "delta", "privacy")} == {None}
        found = [(charge.events, charge.epsilon) for charge in charges(node.folder)]
        assert found == [((NO_BOUND,), None), ((), None)]
        assert {(line["epsilon"], line["delta"]) for line in node.history} == {(None, None)}


# -- killed --------------------------------------------------------------------------------------------

MEMBERS, VICTIM, LONG = 4, 3, 5
ALL = ("aggregation.protocol=additive", f"aggregation.min_participants={MEMBERS}")


KILLED, POWER_LOST = False, True
AFTER_THE_CHARGE = {
    "no-sum-sent": (Moment(Sum), "dp-sgd", POWER_LOST),
    "no-sum-sent, killed": (Moment(Sum), "aldp", KILLED),
    "one-sum-sent": (Moment(Sum, 2), "aldp", KILLED),
    "one-sum-sent, power-lost": (Moment(Sum, 2), "dp-sgd", POWER_LOST),
    "all-sums-sent": (Moment(Sum, MEMBERS - 1, leaving=True), "aldp", POWER_LOST),
}
BEFORE_THE_CHARGE = {
    "ready": (Moment(Accepted, way="in"), "dp-sgd", POWER_LOST),
    "no-share-received": (Moment(Share, way="in"), "ldp", KILLED),
    "one-share-missing": (Moment(Share, MEMBERS - 1, way="in"), "dp-sgd", KILLED),
    "one-share-missing, power-lost": (Moment(Share, MEMBERS - 1, way="in"), "ldp", POWER_LOST),
}
"""With the last share the offer is charged, whether or not the node's own shares have left by then."""


@dataclass(frozen=True)
class Death:
    """What the victim's folder contained after its death, and the charges at its end."""

    before: list[Charge]
    pending: tuple[Event, ...]
    fresh: bool
    memory: list[list[float]]
    after: list[Charge]


def dies_and_comes_back(box: Box, moment: Moment, power: bool) -> Death:
    """It dies in its second session."""
    victim = box.nodes[VICTIM]
    dies(victim, moment, power=power)
    out = victim.folder
    left = charges(out), pending(out), fact(out, "fresh") is not None, json.loads(fact(out, "memory"))
    victim.start()
    to_one_model(box)
    (rule,) = (one for one in box.watchers if isinstance(one, ChargedFirst))
    after = sound(out, BUDGET, DELTA)
    charged = [charge.sid.hex() for charge in after]
    assert {sid.hex() for sid in rule.offered[VICTIM]} | {left[0][-1].sid.hex()} == set(charged), (
        "charged is what was offered, or about to be"
    )
    return Death(*left, after)


@pytest.mark.sampled("no-sum-sent, killed", "one-sum-sent, power-lost")
@pytest.mark.parametrize(("moment", "mechanism", "power"), AFTER_THE_CHARGE.values(), ids=AFTER_THE_CHARGE)
def test_what_was_charged_before_a_death_is_charged_once(
    make_box, moment: Moment, mechanism: str, power: bool
) -> None:
    box = make_box(MEMBERS, LONG, *ALL, *private(mechanism, LONG))
    death = dies_and_comes_back(box, moment, power)
    assert [charge.round for charge in death.before] == [1, 2]
    assert (death.pending, death.fresh) == ((), False), "what is spent is not fresh"
    assert len(death.memory) == (1 if mechanism == "aldp" else 0)
    assert death.after[:2] == death.before
    assert [(charge.round, len(charge.events)) for charge in death.after] == [
        (n, 1) for n in range(1, LONG + 1)
    ]
    arrived = 0 if power else moment.nth - 1 + moment.leaving
    for number in range(VICTIM):
        assert participants(box, number) == [MEMBERS, MEMBERS if number < arrived else 0, *[MEMBERS] * 3]


@pytest.mark.sampled("no-share-received", "one-share-missing, power-lost")
@pytest.mark.parametrize(("moment", "mechanism", "power"), BEFORE_THE_CHARGE.values(), ids=BEFORE_THE_CHARGE)
def test_an_offer_that_a_death_prevented_costs_nothing(
    make_box, moment: Moment, mechanism: str, power: bool
) -> None:
    """With dp-sgd its training is pending; the next offer, which contains it, is charged for it.

    The seed is one of those with which no share overtakes the GROUP, and the victim's own reach the others.
    """
    box = make_box(MEMBERS, LONG, *ALL, *private(mechanism, LONG), seed=2)
    death = dies_and_comes_back(box, moment, power)
    assert [charge.round for charge in death.before] == [1]
    assert death.fresh
    assert len(death.pending) == (1 if mechanism == "dp-sgd" else 0)
    assert death.after[:1] == death.before
    after = [(charge.round, len(charge.events)) for charge in death.after]
    assert after == [(1, 1), (2, 2 if mechanism == "dp-sgd" else 1), (3, 1), (4, 1)]
    assert [participants(box, number) for number in range(VICTIM)] == [
        [MEMBERS, 0, *[MEMBERS] * 3, 0]
    ] * VICTIM
    assert {node.history[-1]["reason"] for node in box.nodes} == {ALL_SPENT}, "the others spent a sum in vain"


def test_what_is_remembered_outlives_a_base_that_was_fetched(make_box) -> None:
    """Absent for more rounds than the others keep certificates: it still has its window of norms."""
    wide = ("privacy.window=12", "model.args.sizes=[64,16,10]")
    box = make_box(MEMBERS, 12, *private("aldp", 12), *wide, seed=1)  # it is back before the last sums
    victim = box.nodes[VICTIM]
    box.start_all()
    box.run(until=lambda: victim.has_aggregated(2))
    victim.kill()
    box.run(until=lambda: victim.is_over and all(node.has_aggregated(6) for node in box.nodes[:VICTIM]))
    (before,) = json.loads(fact(victim.folder, "memory"))
    assert len(before) == 2
    victim.start()
    to_one_model(box)
    assert victim.has_said("proved by the sessions that led to it")
    later = len(sound(victim.folder, BUDGET, DELTA)) - len(before)
    (row,) = json.loads(fact(victim.folder, "memory"))
    assert row[: len(before)] == before
    assert len(row) == len(before) + later
    assert later >= 1


# -- the budget is spent -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["dp-sgd", "ldp"])
def test_rounds_beyond_the_budget_end_the_run_for_all(make_box, mechanism: str) -> None:
    """--rounds goes two rounds beyond train.rounds, when no node has any budget left."""
    box = make_box(3, ROUNDS, *private(mechanism, ROUNDS - 2))
    box.start_all()
    to_one_model(box)
    for node in box.nodes:
        end, lines = node.summary, node.history
        assert (end["rounds"], end["aggregated"], end["fallbacks"], end["finished"]) == (2, 2, 1, True)
        assert [line["reason"] for line in lines] == [None, None, ALL_SPENT]
        assert [line["train_loss"] is None for line in lines] == [False, False, True]
        assert [charge.round for charge in sound(node.folder, BUDGET, DELTA)] == [1, 2]
        assert len({line["epsilon"] for line in lines[1:]}) == 1


def test_a_node_that_has_spent_its_budget_early_follows_the_others(make_box) -> None:
    """Started and killed three times before the others start: one offer holds three rounds of training."""
    rounds = 3
    box = make_box(MEMBERS, rounds, *private("dp-sgd", rounds))
    early = box.nodes[VICTIM]
    for life in range(rounds):
        early.start()
        box.run_for(1.0)
        early.kill()
        box.run(until=lambda: early.is_over)
        assert len(pending(early.folder)) == life + 1
    box.start_all()
    to_one_model(box)
    (charge,) = sound(early.folder, BUDGET, DELTA)
    assert len(charge.events) == rounds
    assert [(line["round"], line["reason"]) for line in early.history] == [(1, None), (2, SPENT), (3, SPENT)]
    for node in box.nodes[:VICTIM]:
        assert participants(box, node.number) == [4, 3, 3]
    assert (early.summary["offers"], early.summary["finished"]) == (1, True)


# -- several runs under one key ------------------------------------------------------------------------


def test_after_offers_without_noise_nothing_is_promised_under_the_key(make_box) -> None:
    box = make_box(3, 1)
    box.start_all()
    box.run_to_the_end()
    outs = [box.folder / f"later {node.number}" for node in box.nodes]
    for node, out in zip(box.nodes, outs, strict=True):
        assert [charge.events for charge in charges(node.folder)] == [(NO_BOUND,)]
        node.start(
            "--key", str(node.folder / "node.key"), "--out", str(out), "--set", "privacy.mechanism=ldp"
        )
    box.run_to_the_end()
    for node, out in zip(box.nodes, outs, strict=True):
        assert node.has_said("no bound: NO BOUND: offers without noise were made under this key")
        assert node.has_said("privacy spent: NO BOUND: offers without noise were made under this key")
        said = summary(out)
        assert (said["epsilon"], said["delta"], said["aggregated"]) == (None, DELTA, 0)
        assert said["privacy"]["epsilon_spent"] is None
        assert said["privacy"]["epsilon_remaining"] == 0.0
        assert [charge.events for charge in charges(out)] == [(NO_BOUND,)], "and nothing was offered"
        only_for_its_owner(out, *out.rglob("*"), *(path for path in node.folder.rglob("*") if path.is_file()))


def only_for_its_owner(*paths: Path) -> None:
    assert [(path, oct(path.stat().st_mode)) for path in paths if path.stat().st_mode & 0o077] == []


def test_one_key_is_one_node_and_its_budget_is_spent_once(make_box) -> None:
    box = make_box(4, ROUNDS, *private("ldp"))
    *nodes, twin = box.nodes
    out, first = box.folder / "twin", nodes[0]
    under_its_key = ("--key", str(first.folder / "node.key"), "--out", str(out))
    for node in nodes:
        node.start()
    box.run(until=lambda: first.has_aggregated(1))
    twin.start(*under_its_key)
    box.run(until=lambda: twin.is_over)
    assert twin.status == 1
    assert twin.lines[-1].startswith(
        f"error: the key file {first.folder / 'node.key'} is in use by another node"
    )
    assert not out.exists(), "nothing was made for it"
    first.kill()
    box.run(until=lambda: first.is_over)
    paid = charges(first.folder)
    twin.start(*under_its_key)
    box.run(until=lambda: twin.has_said(f"spent before: {len(paid)} offer"))
    assert [(one.sid, one.events) for one in charges(out)] == [(one.sid, one.events) for one in paid]


# -- wrong values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("privacy.epsilon=0",), "privacy.epsilon = 0"),
        (("privacy.mechanism=tests.own_mechanisms:Raising",), "is out of order"),
        (("model.class=tests.own_models:Normed", "model.args={}"), "BatchNorm1d"),
    ],
)
def test_wrong_values_are_one_line_and_nothing_is_written(make_box, overrides: tuple[str, ...], words: str):
    box = make_box(1, 1, "privacy.mechanism=dp-sgd", *overrides)
    (node,) = box.nodes
    node.start()
    box.run_to_the_end()
    (line,) = node.lines
    assert node.status == 2
    assert line.startswith("error: ")
    assert "\n" not in line
    assert words in line
    assert [path.name for path in node.folder.iterdir()] == ["node.key"], "which was there before"


def test_batch_norm_is_fine_where_no_row_needs_a_gradient_of_its_own(make_box) -> None:
    box = make_box(3, 1, *private("ldp", 1), "model.class=tests.own_models:Normed", "model.args={}")
    box.start_all()
    to_one_model(box)


def test_two_epsilons_in_one_swarm(make_box) -> None:
    box = make_box(2, 1, "privacy.mechanism=ldp", "privacy.epsilon=8")
    one, other = box.nodes
    one.start()
    box.run_for(1.0)
    new = box.folder / "new"
    other.start("--set", "privacy.epsilon=4", "--out", str(new))
    box.run(until=lambda: other.is_over)
    assert other.status == 2
    assert one.endpoint in other.lines[-1]
    assert "privacy.epsilon is 4.0 here and 8.0 there" in other.lines[-1]
    assert [path.name for path in new.iterdir()] == ["node.key"], "others may have it on their lists by now"
    assert one.has_said("privacy.epsilon is 8.0 here and 4.0 there")
    assert one.is_up


# -- rows that nobody can learn from -------------------------------------------------------------------


def spoilt(rows: slice) -> Rows:
    """Returns digits, of which these rows of the last node, in each part, are not finite."""

    def made(options: NodeOptions) -> Dataset:
        found = few_digits(options)
        assert options.shard is not None
        if options.shard[0] + 1 < options.shard[1]:
            return found
        train, test = found.train_x.clone(), found.test_x.clone()
        train[rows] = test[rows] = torch.inf
        return replace(found, train_x=train, test_x=test)

    return made


def seen_by_others(box: Box) -> list[list[object]]:
    """Returns what all nodes do, and when: messages by their kind, charges, and what rounds have cost."""
    texts = [line.split(" ") for line in box.trace]
    disk = ("sync", "commit")  # its files are named by what the model is
    flow: list[object] = [
        (at, number, what, "" if what in disk else text)
        for at, number, what, text, *_ in texts
        if what != "said"
    ]
    query = "select round, at_ms, events, epsilon from ledger order by round"
    charged: list[object] = [node.rows(query) for node in box.nodes]
    names = ("round", "outcome", "participants", "bytes_sent", "bytes_received", "epsilon")
    rounds: list[object] = [[line[name] for name in names] for node in box.nodes for line in node.history]
    return [flow, charged, rounds]


@pytest.mark.parametrize("more", [("ldp",), ("aldp", "privacy.window_source=quantile")])
def test_training_that_diverges_is_seen_by_nobody_but_the_owner(make_box, more: tuple[str, ...]) -> None:
    """Before, the node ended and told the others: that tells any two data sets apart with certainty."""
    mechanism, *rest = more
    found = []
    for rows in (few_digits, spoilt(slice(None))):
        box = make_box(3, 2, *private(mechanism, 2), *rest, rows=rows)
        box.start_all()
        to_one_model(box)
        found.append(seen_by_others(box))
    assert found[0] == found[1]
    *others, last = box.nodes
    line = "this node's training of round 2 gave values that are not finite, and counts as no progress; the"
    assert last.has_said(line)
    assert not any(node.has_said("not finite") for node in others)
    assert [line["train_loss"] for line in last.history] == [None, None]


@pytest.mark.parametrize("mechanism", ["dp-sgd", "distributed-dp-sgd"])
def test_a_row_that_is_not_finite_ends_no_node(make_box, mechanism: str) -> None:
    """Before, one among the rows held back did: the loss on them had no place in a line of history."""
    counted = (
        "aggregation.swarm_metric=sums",
        "aggregation.swarm_metric_every=1",
        "privacy.metric_share=0.5",
    )
    shared = ("train.steps=4", "train.report_every=2", "privacy.honest=1", "privacy.epsilon=8")
    settings = private(mechanism, 2) if mechanism == "dp-sgd" else shared
    usual = SMALL if mechanism == "dp-sgd" else STEPS
    box = make_box(3, 2, *settings, *counted, rows=spoilt(slice(3, 4)), usual=usual)
    box.start_all()
    to_one_model(box)
    assert [participants(box, number) for number in range(3)] == [[3, 3]] * 3
    assert [node.summary["value"] is None for node in box.nodes] == [False, False, True]
