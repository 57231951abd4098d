"""Sums that are single steps: a generation ends the run, and an offer belongs to the base it was made for."""

from protocol.actions import Failed, Reason
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import MaskedSettings
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


def swarm(**changes) -> Wires:
    return Wires(KEYS, **STEPS, **changes).open()


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


def test_who_comes_when_the_others_have_the_last_base_ends_with_it():
    wires = swarm()
    late = KEYS[3]
    wires.dropped = lambda sender, to, _message: endpoint(late) in (sender, to)
    for _ in range(LAST):
        wires.offer(*KEYS[:3])
        wires.tick(10.0, *KEYS[:3])
        wires.tick(2.0, *KEYS[:3])  # the late one does not say whether it is in a rival
    assert {wires[key].base.generation for key in KEYS[:3]} == {LAST}
    wires.dropped = lambda *_: False
    for key in KEYS[:3]:
        wires.carry_out(endpoint(late), wires[late].reconnected(endpoint(key), wires.now))
    wires.quiet().offer(late)

    assert wires[late].base == wires[KEYS[0]].base
    assert Reason.SWARM_FINISHED in {
        end.reason for where, end in wires.ends(Failed) if where == endpoint(late)
    }
