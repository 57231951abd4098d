"""The end of the last round: how long a node lingers for which peers."""

from protocol.swarm.last_rounds import LINGER_S, Closing
from protocol.swarm.meeting.membership import Members
from protocol.swarm.recovery.fetch import PATIENCE_S
from tests.parts import NOW, announce, base, members, state

KEYS = members(3)


def closing(**shown) -> Closing:
    """Makes a node after round 1 on a base, and what other peers show, followers included."""
    known = Members()
    known.learn(announce(KEYS[1], **shown), 1, NOW, live=True)
    held = Closing(state(round=1, held=base(1, 1)), known)
    assert (held.until, held.is_over(False, NOW)) == (None, False)
    held.begin(0.0, NOW)
    return held


def test_nobody_is_waited_for_that_confirmed_the_base_and_the_round():
    confirmed = closing(base=base(1, 1), round=1)

    assert not confirmed.is_over(True, NOW)
    assert confirmed.is_over(False, NOW)
    assert confirmed.until == NOW + LINGER_S


def test_who_shows_another_base_or_an_earlier_round_is_waited_for_while_it_lingers():
    for shown in ({"round": 1}, {"base": base(1, 1)}, {"base": base(1, 1), "following": True}):
        held = closing(**shown)
        assert not held.is_over(False, NOW + LINGER_S - 1)
        assert held.is_over(True, NOW + LINGER_S)


def test_it_lingers_while_others_may_need_a_certificate():
    held = closing()
    held.begin(15.0, NOW)

    assert held.until == NOW + 15.0 + PATIENCE_S
