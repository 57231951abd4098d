"""Three owners agree on scales and lists by secure sums; one dies, is alone, or says something else."""

from __future__ import annotations

import json
import shutil
import tomllib
from functools import partial
from pathlib import Path

import pytest

from mechanisms.accounting.ledger import Ledger, privacy_spent
from node.agree.run import conclude, prepare_agreement
from node.init import __main__ as init
from node.system.errors import UserError
from protocol.wire.messages import Share, Sum
from tests.box.box import Box, BoxNode
from tests.box.ledgers import charges
from tests.box.moments import Moment, dies
from tests.box.test_privacy import participants, to_one_model
from tests.own_data import ward
from tests.run_folders import fact

OWNERS = 3
EPSILON, DELTA, SHARE = 8.0, 1e-5, 0.25
PRIVATE = (f"privacy.epsilon={EPSILON}", f"privacy.delta={DELTA}", f"agreement.share={SHARE}")


@pytest.fixture
def owners(make_box, tmp_path: Path) -> Box:
    """Makes three folders with rows of their own, and the same task with public ranges."""
    return owners_in(make_box, tmp_path, OWNERS)


def owners_in(make_box, tmp_path: Path, count: int, *options: str) -> Box:
    for number in range(count):
        (tmp_path / f"{number}.csv").write_text(ward(200 + 100 * number, number))
    task = tmp_path / "ward.toml"
    argv = ("--data", str(tmp_path / "0.csv"), "--target", "outcome", "--agree", "--out", str(task))
    assert init.main(argv) == 0
    box: Box = make_box(
        count,
        2,
        *PRIVATE,
        options=("--task", str(task), *options),
        usual=(),
        prepare=prepare_agreement,
        own=lambda number: ("--data", str(tmp_path / f"{number}.csv")),
    )
    return box


def written(node: BoxNode) -> str:
    """Returns the task that a node's agreement leads to. Raises UserError if there is none."""
    assert node.prepared is not None
    assert node.agreed is not None
    path = node.folder.parent / f"{node.number}-agreed.toml"
    conclude(node.prepared, node.box.options(node.number).task, *node.agreed, path)
    return path.read_text()


def agreed(box: Box) -> dict[str, object]:
    """Runs the box to the end; returns the task that all write."""
    to_one_model(box)
    (text,) = {written(node) for node in box.nodes}
    return tomllib.loads(text)


def totals(folder: Path) -> list[float]:
    """Recomputes the total epsilon after each release in a node's ledger."""
    ledger, found = Ledger(()), []
    for charge in charges(folder):
        ledger = ledger.adding(charge.events)
        found.append(privacy_spent(ledger, DELTA * SHARE).epsilon)
    return found


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power-lost"])
def test_a_peer_that_dies_with_its_sums_on_the_way_comes_back_and_no_share_is_overspent(
    owners: Box, power: bool
) -> None:
    """The first attempt fails for all three; without these sums the next one has new noise and is charged."""
    dies(owners.nodes[-1], Moment(Sum, session=1), power=power)
    owners.nodes[-1].start()
    task = agreed(owners)
    assert task["privacy"]["epsilon"] == pytest.approx(EPSILON * (1 - SHARE))
    assert task["privacy"]["delta"] == pytest.approx(DELTA * (1 - SHARE))
    (age,) = (column for column in task["data"]["schema"]["columns"] if column["name"] == "age")
    assert 20 <= age["mean"] <= 80
    for node in owners.nodes:
        paid, tries = totals(node.folder), node.history
        offered_first = node is owners.nodes[-1] or tries[0]["reason"] == "sums-timeout"
        if power:
            assert fact(node.folder, "fresh") is None
            assert tries[-1]["participants"] == OWNERS
            assert len(paid) == 1 + offered_first, "a share that was lost on its way kept an offer at home"
        else:
            assert len(paid) == 1, "who came back had its sums: the first attempt is finished late"
        assert paid == sorted(set(paid))
        assert paid[-1] <= EPSILON * SHARE * (1 + 1e-9)
        assert node.summary["epsilon"] == pytest.approx(paid[-1], abs=1e-6)
        assert node.summary["finished"]


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power-lost"])
def test_sums_that_did_not_leave_are_offered_again_as_they_are_and_charged_once(
    owners: Box, power: bool
) -> None:
    dies(owners.nodes[-1], Moment(Share, session=1), power=power)
    owners.nodes[-1].start()
    agreed(owners)
    for node in owners.nodes:
        (charge,) = charges(node.folder)
        assert len(charge.events) == 1
        assert participants(owners, node.number)[-1] == OWNERS


def test_the_same_folder_again_leads_to_the_same_again_and_charges_nothing(owners: Box) -> None:
    owners.start_all()
    agreed(owners)
    node = owners.nodes[0]
    text, before = written(node), totals(node.folder)
    node.start()
    owners.run_to_the_end()
    assert (node.status, written(node), totals(node.folder)) == (0, text, before)
    assert len(before) == 1


def test_what_an_agreement_cost_is_kept_beside_the_key(owners: Box) -> None:
    owners.start_all()
    agreed(owners)
    node = owners.nodes[0]
    before, key = totals(node.folder), node.folder.parent / "key"
    lines = (node.folder / "node.key.spent").read_text().splitlines()
    assert [json.loads(line.partition(" ")[2])["task"] for line in lines] == ["agreement on ward"]
    for name in ("node.key", "node.key.spent"):
        shutil.move(node.folder / name, key.parent / name.replace("node.key", "key"))
    shutil.rmtree(node.folder)
    node.start("--key", str(key), "--rounds", "1")
    owners.run_to_the_end()
    assert node.has_said("spent before: 1 offer that")
    assert totals(node.folder) == before
    with pytest.raises(UserError, match="no agreement, for the reasons above"):
        written(node)


def test_alone_there_is_no_agreement_and_the_same_folder_tries_again(owners: Box) -> None:
    node = owners.nodes[0]
    for last in (2, 4):
        node.start()
        owners.run_to_the_end()
        assert [(record.own, record.alone) for record in node.records][-2:] == [(last - 1, 1), (last, 2)]
        with pytest.raises(UserError, match="nothing is written; start all peers again"):
            written(node)
    assert charges(node.folder) == [], "nobody saw anything"


def test_all_are_in_the_sum_or_nobody_is_and_who_is_missing_is_named(make_box, tmp_path: Path) -> None:
    """Two of three would be a group without the largest site. A late peer fetches what others agreed on."""
    box = owners_in(make_box, tmp_path, 4, "--wait", "600", "--set", "aggregation.group_timeout_s=60")
    *early, late = box.nodes
    for node in early:
        node.start()
    box.run_to_the_end()
    for node in early:
        assert node.status == 1
        assert node.has_said(f"this node waited for one: {late.endpoint} did not come")
        assert charges(node.folder) == []
    box.prepare = partial(prepare_agreement, without=(late.endpoint,))
    for node in early:
        node.start()
    box.run_to_the_end()
    (text,) = {written(node) for node in early}
    box.prepare = prepare_agreement
    late.start()
    box.run_for(5.0)
    for node in early[:2]:
        node.start()
    box.run_to_the_end()
    assert written(late) == text
    assert [len(charges(node.folder)) for node in box.nodes] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("mine", "theirs", "told"),
    [
        ("high = 80.0", "high = 90.0", "data.schema.columns"),
        (
            "[agreement]\n",
            "[agreement]\nleave_out_missing = true\n",
            "agreement.leave_out_missing is absent here and true there",
        ),
    ],
    ids=["another-range", "leaves-out-what-is-missing"],
)
def test_whoever_says_something_else_is_told(
    owners: Box, tmp_path: Path, mine: str, theirs: str, told: str
) -> None:
    node, other, _ = owners.nodes
    (tmp_path / "other.toml").write_text((tmp_path / "ward.toml").read_text().replace(mine, theirs))
    node.start()
    owners.run_for(1.0)
    other.start("--task", str(tmp_path / "other.toml"))
    owners.run(until=lambda: other.is_over)
    assert node.has_said("is in another swarm")
    assert node.has_said(told)
    assert other.status == 2
