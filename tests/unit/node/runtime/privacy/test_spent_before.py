"""The owner's word on what a key has spent: what it books, what it costs, and what the node says."""

import math
from pathlib import Path

import numpy as np
import pytest

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, Pure, SampledGaussian, privacy_spent
from node.runtime.privacy.budget import make_mechanism
from node.runtime.privacy.spent_before import behind_text, count_as_spent, count_text
from node.storage.records import count_of
from node.storage.spend_file import SpendFile
from node.storage.state import Owner, State
from node.system.errors import ConfigError
from node.task.load import load_task
from protocol.actions import LedgerBehind
from protocol.wire.messages import ChargeCount

SHAPES = [("layers.0.weight", (8, 4)), ("layers.0.bias", (4,))]
KEY = b"k" * 32
METRIC = ("aggregation.swarm_metric=sums", "aggregation.swarm_metric_every=1", "privacy.metric_share=0.5")


def made(mechanism: str, *overrides: str):
    budget = ("privacy.epsilon=2", "train.rounds=3")
    return make_mechanism(
        load_task("digits", [f"privacy.mechanism={mechanism}", *budget, *overrides]), SHAPES, 100
    )


def opened(folder: Path) -> State:
    spending = SpendFile(folder / "key", KEY, "digits")
    return State(folder, Owner("digits", bytes(32), KEY), np.zeros(5, np.float32), spending)


def events(state: State) -> list[Event]:
    return [event for charge in state._charges() for event in charge.events]


@pytest.mark.parametrize(
    ("mechanism", "overrides", "count"),
    [
        ("ldp", (), ChargeCount(0, 2)),
        ("dp-sgd", (), ChargeCount(2, 0)),
        ("dp-sgd", METRIC, ChargeCount(2, 1)),
        ("tests.own_mechanisms:Counting", (), ChargeCount(0, 2)),
    ],
)
def test_each_lost_charge_is_booked_at_what_its_kind_costs(tmp_path, mechanism, overrides, count):
    of_task, state = made(mechanism, *overrides), opened(tmp_path)
    noise = getattr(of_task, "counts", None)
    units = (*of_task.per_training, *of_task.per_offer, *([] if noise is None else [noise.event]))
    said = count_as_spent(state, of_task, count, 1)
    assert f"{count_text(count)}: {count.sampled + count.plain} charges that this folder did not" in said
    expected = [unit for unit in units for _ in range(_times(unit, count))]
    assert state.ledger == Ledger.of(expected)
    assert state.charged == count
    assert opened(tmp_path).charged == count, "it is remembered"
    (tmp_path / "state.db").unlink()
    assert opened(tmp_path).charged == count, "beside the key, too"
    (row,) = state._database.rows("select round, epsilon from ledger")
    assert row == (0, pytest.approx(privacy_spent(state.ledger, 1e-5).epsilon))


def _times(unit: Event, count: ChargeCount) -> int:
    return count.sampled if isinstance(unit, SampledGaussian) else count.plain


@pytest.mark.parametrize("mechanism", ["ldp", "dp-sgd"])
def test_a_kind_that_the_mechanism_lacks_is_booked_all_the_same_and_costs_no_less(tmp_path, mechanism):
    """The key was charged by another mechanism, under the same name of a task."""
    of_task, state = made(mechanism), opened(tmp_path)
    count_as_spent(state, of_task, ChargeCount(1, 1), 1)
    assert state.charged == ChargeCount(1, 1), "so that it is not refused again"
    unit, *_ = (*of_task.per_training, *of_task.per_offer)
    costs = [privacy_spent(Ledger.of((event,)), 1e-5).epsilon for event in (*events(state), unit)]
    assert min(costs) == costs[-1]


def test_what_nobody_can_bound_costs_all(tmp_path):
    of_task = replace_offer(made("tests.own_mechanisms:Counting"), Pure(0.5))
    state = opened(tmp_path)
    count_as_spent(state, of_task, ChargeCount(1, 0), 1)
    assert privacy_spent(state.ledger, 1e-5).epsilon == math.inf


def replace_offer(mechanism, event: Event):
    """Returns a mechanism that costs this event an offer."""
    return type("Pure", (type(mechanism),), {"per_offer": (event,)})(mechanism.setting)


def test_only_what_the_folder_lacks_is_booked_and_once(tmp_path):
    ldp, state = made("ldp"), opened(tmp_path)
    count_as_spent(state, ldp, ChargeCount(0, 2), 1)
    count_as_spent(state, ldp, ChargeCount(0, 3), 2)
    assert events(state) == [*ldp.per_offer * 3]
    for count in (ChargeCount(0, 3), ChargeCount(0, 1)):
        said = count_as_spent(state, ldp, count, 3)
        assert "already knows of 3 charges, so the option changes nothing" in said
    assert len(state._charges()) == 2


def test_where_nothing_is_charged_the_word_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"--spent-before 1\+0 is refused: privacy.mechanism = 'none'"):
        count_as_spent(opened(tmp_path), made("none"), ChargeCount(1, 0), 1)


def test_the_line_has_both_counts_and_what_to_do():
    line = behind_text(LedgerBehind(ChargeCount(12, 2), ChargeCount(3, 4)), "ward")
    assert line == (
        "this key has been charged 14 times for task 'ward', as a member shows by the key's own signature, "
        "and this folder knows of 7: put back the newest --out, or the .spent file beside the key; if both "
        "are lost, --spent-before 12+4 counts all as spent"
    )


def test_a_count_is_of_events_whatever_their_steps():
    """How many steps a training has tells how many rows a node has; how often it trained, its rounds do."""
    two = (SampledGaussian(1.1, 0.25, 8), SampledGaussian(1.1, 0.25, 300))
    assert count_of(two) == ChargeCount(2, 0)
    assert count_of([Gaussian(2.0)], count_of(two)) == ChargeCount(2, 1)
