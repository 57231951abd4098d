"""Sums that are single steps: a generation ends the run, and an offer belongs to the base it was made for."""

from protocol.actions import Failed, Reason
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import MaskedSettings
from tests.parts import NOW, base_of, members, only, rand, vector
from tests.wires import node

KEYS = members(4)
LAST = 3
STEPS = {
    "sums": LAST,
    "by_steps": True,
    "masked": MaskedSettings(None, None, 0, honest=1),
    "shares": ShareSettings("seed", None, 100.0),
}


def test_an_offer_made_for_an_older_base_is_dropped_before_it_can_enter_a_sum():
    one = node(KEYS[0], **STEPS)
    one.offer(vector(1).view("<u4"), rand(1), NOW)
    failed = only(one.adopted(base_of(vector(7), 1), NOW), Failed)

    assert (failed.reason, failed.sid) == (Reason.OUTDATED, None)
    one.offer(vector(2).view("<u4"), rand(2), NOW)  # another may be offered


def test_an_update_is_offered_to_whatever_base_comes():
    one = node(KEYS[0])
    one.offer(vector(1), rand(1), NOW)
    assert not [action for action in one.adopted(base_of(vector(7), 1), NOW) if isinstance(action, Failed)]
