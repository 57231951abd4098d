"""Sums that are single steps: a generation ends the run, and an offer belongs to the base it was made for."""

import pytest

from protocol.actions import Completed, Failed, Healed, Reason
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.wire.masked_messages import Release, ResultCertificate
from protocol.wire.messages import Sum
from tests.parts import NOW, base_of, endpoint, members, only, rand, vector
from tests.wires import Wires, node

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


def test_an_offer_made_for_a_base_that_was_replaced_meanwhile_enters_no_sum():
    one = node(KEYS[0], **STEPS)
    before = one.base
    one.adopted(base_of(vector(7), 1), NOW)
    failed = only(one.offer(vector(1).view("<u4"), rand(1), NOW, before), Failed)

    assert failed.reason is Reason.OUTDATED
    assert not [
        action for action in one.offer(vector(1).view("<u4"), rand(1), NOW, one.base) if action == failed
    ]


@pytest.mark.parametrize("run_steps", [1, LAST])
@pytest.mark.parametrize("count", [3, 4], ids=["shares", "masks"])
def test_the_sum_on_each_base_may_have_a_length_of_its_own(count, run_steps):
    """The last member gets no result of the second sum, and fetches it."""
    keys = KEYS[:count]
    wires = Wires(
        keys, **STEPS, run_steps=run_steps, offered=7, lengths=lambda generation: 7 - 2 * generation
    ).open()
    late = endpoint(keys[-1])
    for kinds in ((), (Release, Sum, ResultCertificate), ()):
        wires.dropped = lambda _from, to, message, kinds=kinds: to == late and isinstance(message, kinds)
        wires.offer().tick(20.0).tick(20.0)
        wires.dropped = lambda *_: False
        wires.tick(20.0).tick(20.0)
    ends = [end for where, end in wires.done if where == late and isinstance(end, Completed | Healed)]
    assert [(type(end), len(end.result)) for end in ends] == [(Completed, 7), (Healed, 5), (Completed, 3)]


def test_an_update_is_offered_to_whatever_base_comes():
    one = node(KEYS[0])
    one.offer(vector(1), rand(1), NOW)
    assert not [action for action in one.adopted(base_of(vector(7), 1), NOW) if isinstance(action, Failed)]
