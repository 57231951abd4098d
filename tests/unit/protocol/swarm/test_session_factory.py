"""Which machine runs a session: masked sums for suitable groups, shares for the others."""

import pytest

from protocol.adaptive_timeouts import PhasePaces
from protocol.aggregation.additive.machine import Additive
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.swarm.session_factory import machine_for
from protocol.wire.limits import MAX_MEMBERS
from tests.parts import NOW, ephemeral, group, members, rand, settings, vector

MASKED = MaskedSettings(4.0, None)


@pytest.mark.parametrize(
    ("count", "masked", "kind"),
    [(3, None, Additive), (5, None, Additive), (3, MASKED, Additive), (4, MASKED, DoubleMasked)],
)
def test_four_and_more_are_masked_where_the_swarm_is(count, masked, kind):
    keys = members(count)
    paces = PhasePaces(15.0, 20.0)
    machine = machine_for(group(keys), ephemeral(keys[0]), settings(keys[0], masked=masked), paces, None)
    machine.start(vector(0), rand(0), NOW)

    assert type(machine) is kind
    assert machine.participant.round == 1
    assert machine.deadline == NOW + 15.0
    assert machine.waiting_for() == tuple(key.public for key in keys[1:])


def test_two_whose_link_may_be_cut_go_first_if_both_are_here():
    keys, paces = members(4), PhasePaces(15.0, 20.0)
    one, two, three, four = (key.public for key in keys)
    disputes = ((two, three), (three, bytes(32)), (one, four))
    made = machine_for(group(keys), ephemeral(keys[0]), settings(keys[0]), paces, None, disputes)
    assert made._first == {two, three}


@pytest.mark.parametrize(
    ("changes", "vectors"),
    [({"seeds": ("a:1", "b:1", "c:1")}, 3), ({}, MAX_MEMBERS - 1), ({"masked": MASKED}, 2)],
    ids=["named", "any", "masked"],
)
def test_one_bulk_message_may_take_as_long_as_all_of_its_step(changes, vectors):
    own = settings(members(1)[0], least_rate=1.0, **changes)
    assert own.bulk_s == 15.0 + 2 * vectors * 4 * own.aggregation.longest
    group_of_four = group(members(4))
    paces = PhasePaces(15.0, 20.0)
    made = machine_for(group_of_four, ephemeral(members(1)[0]), own, paces, None)
    assert made.participant.timeouts.least_rate == 1.0


def test_views_have_longer_than_sums_where_sums_are_fast():
    keys, paces = members(4), PhasePaces(15.0, 100.0)
    for _ in range(3):
        paces.observe(0.0, 1.0, 2.0)
    found = [
        machine_for(
            group(keys), ephemeral(keys[0]), settings(keys[0], masked=masked), paces, None
        ).participant
        for masked in (None, MASKED)
    ]

    assert [participant.timeouts.sums_s for participant in found] == [pytest.approx(5.0), pytest.approx(7.5)]
