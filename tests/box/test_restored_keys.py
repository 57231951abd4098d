"""A key restored alone, without ledger and spend file, spends no budget twice: members know its count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mechanisms.accounting.ledger import Ledger, privacy_spent
from protocol.wire import signing
from protocol.wire.messages import Announce, ChargeCount, Charged, Reminder
from tests.box.box import STEPS, Box, BoxNode
from tests.box.invariants import ChargedFirst, CountedFirst
from tests.box.ledgers import charges
from tests.box.test_privacy import BUDGET, DELTA, private, to_one_model
from tests.cases import soak
from tests.run_folders import rows

MEMBERS, ROUNDS, LOST = 4, 6, 3
ALL = f"aggregation.min_participants={MEMBERS}"
ADDITIVE = ("aggregation.protocol=additive",)
SHARED = ("train.steps=30", "train.report_every=5", "privacy.honest=2", f"privacy.epsilon={BUDGET:g}")


def wiped(node: BoxNode) -> None:
    """Loses a node's folder but for its key."""
    node.disk.restore({node.folder / "node.key": (node.folder / "node.key").read_bytes()})


def box_of(make_box, mechanism: str, *more: str, seed: int = 0) -> Box:
    if mechanism == "distributed-dp-sgd":
        box: Box = make_box(MEMBERS, ROUNDS, *SHARED, *more, usual=STEPS, seed=seed)
    else:
        box = make_box(MEMBERS, ROUNDS, *private(mechanism, ROUNDS), *more, seed=seed)
    return box


def killed_and_wiped(make_box, mechanism: str = "ldp", *more: str) -> Box:
    """Runs a box for two rounds, kills a node and takes all but the key from it."""
    box = box_of(make_box, mechanism, *more)
    lost = box.nodes[LOST]
    box.start_all()
    box.run(until=lambda: lost.has_aggregated(2))
    lost.kill()
    box.run(until=lambda: lost.is_over)
    wiped(lost)
    return box


def told(box: Box) -> ChargeCount:
    """Returns the newest count that the lost node told of."""
    (rule,) = (one for one in box.watchers if isinstance(one, CountedFirst))
    return rule.told[LOST]


def refused(box: Box, *options: str) -> str:
    """Starts the lost node, which must end before anything of an offer leaves it; returns its line."""
    lost = box.nodes[LOST]
    (rule,) = (one for one in box.watchers if isinstance(one, ChargedFirst))
    before = len(rule.offered[LOST])
    lost.start(*options)
    box.run(until=lambda: lost.is_over)
    assert lost.status == 1
    assert len(rule.offered[LOST]) == before, "nothing was released"
    assert lost.lines[-1].startswith("error: this key has been charged ")
    return lost.lines[-1]


@pytest.mark.sampled("ldp", "additive")
@pytest.mark.parametrize(
    ("mechanism", "more"),
    [("ldp", ()), ("ldp", ADDITIVE), ("dp-sgd", ()), ("distributed-dp-sgd", ())],
    ids=["ldp", "additive", "dp-sgd", "shared-noise"],
)
def test_a_key_restored_alone_is_refused_and_nothing_is_charged_or_released(
    make_box, mechanism: str, more: tuple[str, ...]
) -> None:
    box = killed_and_wiped(make_box, mechanism, *more)
    lost, count = box.nodes[LOST], told(box)
    line = refused(box)
    assert f"charged {count.sampled + count.plain} times for task 'digits'" in line
    assert "this folder knows of 0: put back" in line
    assert f"--spent-before {count.sampled}+{count.plain} " in line
    assert charges(lost.folder) == []
    assert not (lost.folder / "node.key.spent").exists()
    to_the_end(box, box.nodes[:LOST])
    assert {len(rows(node.folder, "select key from banned")) for node in box.nodes[:LOST]} == {0}


def to_the_end(box: Box, nodes: list[BoxNode]) -> None:
    box.run(until=lambda: all(node.is_over for node in nodes))
    assert [node.status for node in nodes] == [0] * len(nodes)


def test_the_members_know_it_after_they_were_all_started_again(make_box) -> None:
    box = killed_and_wiped(make_box)
    for node in box.nodes[:LOST]:
        node.kill()
    box.run(until=lambda: all(node.is_over for node in box.nodes))
    for node in box.nodes[:LOST]:
        node.start()
    refused(box)


def test_one_member_that_kept_the_count_is_enough(make_box) -> None:
    box = killed_and_wiped(make_box)
    for node in box.nodes[:LOST]:
        node.kill()
    box.run(until=lambda: all(node.is_over for node in box.nodes))
    for node in box.nodes[1:LOST]:
        wiped(node)
    box.nodes[0].start()
    refused(box)


def test_an_older_copy_of_everything_is_refused_too(make_box) -> None:
    box = box_of(make_box, "ldp")
    lost = box.nodes[LOST]
    box.start_all()
    box.run(until=lambda: lost.has_aggregated(1))
    copy = lost.disk.written()
    box.run(until=lambda: lost.has_aggregated(3))
    lost.kill()
    box.run(until=lambda: lost.is_over)
    lost.disk.restore(copy)
    line = refused(box)
    assert "charged 3 times" in line
    assert "knows of 1:" in line
    assert len(charges(lost.folder)) == 1


@pytest.mark.sampled("ldp", "dp-sgd")
@pytest.mark.parametrize("mechanism", ["ldp", "dp-sgd", "distributed-dp-sgd"])
def test_on_its_owners_word_it_goes_on_from_the_count_as_if_it_had_been_spent(
    make_box, mechanism: str
) -> None:
    box = killed_and_wiped(make_box, mechanism)
    lost, count = box.nodes[LOST], told(box)
    word = ("--spent-before", f"{count.sampled}+{count.plain}")
    assert "knows of 0:" in refused(box)
    lost.start(*word)
    to_one_model(box)
    (booked, *later) = charges(lost.folder)
    assert (len(booked.events), booked.round) == (count.sampled + count.plain, 0)
    assert later, "the budget had some left"
    assert lost.has_said(
        f"{word[0]} {word[1]}: {len(booked.events)} charges that this folder did not know of"
    )
    ledger = Ledger.of(event for one in (booked, *later) for event in one.events)
    privacy = lost.summary["privacy"]
    assert privacy["epsilon_spent"] == pytest.approx(privacy_spent(ledger, DELTA).epsilon)
    assert privacy["epsilon_spent"] <= BUDGET * (1 + 1e-9)
    assert booked.epsilon == pytest.approx(privacy_spent(Ledger.of(booked.events), DELTA).epsilon)
    lost.start(*word)
    box.run(until=lambda: lost.is_over)
    assert lost.has_said("so the option changes nothing: leave it out")
    assert len(charges(lost.folder)) == 1 + len(later)


def test_the_word_of_its_owner_covers_the_count_that_it_was_given_for_and_no_more(make_box) -> None:
    box = killed_and_wiped(make_box)
    line = refused(box, "--spent-before", "0+1")
    assert "charged 2 times" in line
    assert "knows of 1:" in line
    assert "knows of 1:" in refused(box), "the folder remembers the word"


def test_counts_that_a_member_forges_stop_nobody(make_box) -> None:
    """Nothing begins with the liar, who is left out; nobody is banned."""
    box = box_of(make_box, "ldp", "aggregation.shares_timeout_s=2")
    liar, honest = box.nodes[0], box.nodes[1:]
    liar.start()
    box.run(until=lambda: liar.engine is not None)
    assert liar.engine is not None
    part, key = liar.engine._node._charges, liar.key

    def forged(announce: Announce) -> Reminder:
        made_up = Charged(announce.key, "digits", ChargeCount(9, 9))
        return Reminder(announce.instance, (replace(signing.sign(made_up, key), key=announce.key),))

    part._reminder = forged  # type: ignore[method-assign]
    for node in honest:
        node.start()
    box.run(until=lambda: all(node.has_aggregated(2) for node in honest))
    assert not any(node.has_said("error:") or node.has_said("banned") for node in box.nodes)


@pytest.mark.sampled("ldp-waits0")
@pytest.mark.parametrize(
    ("mechanism", "waits"),
    [
        ("ldp", (1, 3, 5)),
        ("distributed-dp-sgd", (1, 4)),
        soak("ldp", (2, 4, 6)),
        soak("distributed-dp-sgd", (2, 3, 5, 6)),
    ],
)
def test_where_power_fails_before_any_wait_for_the_disk_it_has_told_of_nothing_that_its_disk_lacks(
    make_box, mechanism: str, waits: tuple[int, ...]
) -> None:
    """Its next start has its own folder, so it is never refused. What a kill alone leaves is more."""
    for nth in waits:
        loses_power_and_goes_on(box_of(make_box, mechanism, ALL, seed=nth), nth)


def loses_power_and_goes_on(box: Box, nth: int) -> None:
    """Power fails before a wait for the disk after a node's first round; it goes on with what is left."""
    victim = box.nodes[LOST]
    box.start_all()
    box.run(until=victim.has_aggregated)
    victim.before_disk_step(lambda: victim.kill(power=True), nth)
    box.run(until=lambda: victim.is_over)
    before = len(victim.records)
    victim.start()
    box.run(until=lambda: victim.is_over or len(victim.records) > before)
    assert not victim.has_said("error:")


def test_without_noise_nobody_says_anything_of_charges(make_box) -> None:
    box = make_box(3, 2)
    box.start_all()
    to_one_model(box)
    assert not [line for line in box.trace if " Charged " in line or " Reminder " in line]
    assert rows(box.nodes[0].folder, "select * from charged") == []
    (node, *_) = box.nodes
    node.start("--spent-before", "2+0")
    box.run(until=lambda: node.is_over)
    assert node.status == 2
    assert "privacy.mechanism = 'none' charges nothing" in node.lines[-1]
