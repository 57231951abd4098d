"""Which messages are light: of totals and releases only the last one causes work."""

from protocol.aggregation.session_machine import is_always_light, is_light
from protocol.wire.masked_messages import Ack, JoinCertificate, Release, Total
from protocol.wire.messages import Group, Share
from tests import parts
from tests.simulation.bare import Swarm
from tests.simulation.mutations import MEMBERS, begin, machine, real_messages
from tests.simulation.schedules import REDUCERS, Schedule

NOW = parts.NOW
CALM = Schedule(0, MEMBERS, REDUCERS, groups=1)
H = bytes(32)


def test_kinds_that_never_go_through_a_vector():
    ack = next(message for message in real_messages(REDUCERS) if isinstance(message, Ack))
    assert is_always_light(ack)
    assert is_light(ack, None)
    assert not is_always_light(Group((), 0, H))
    assert not is_light(Share(H, H, H, 0), None)


def test_the_last_total_and_the_release_that_opens_are_not_light():
    swarm = Swarm(CALM).run()
    threshold = CALM.scheme.tolerance.threshold
    here, light = machine(REDUCERS), []
    assert is_light(_first(swarm, Total), here), "it is held until the masks are here"
    begin(here, real_messages(REDUCERS))
    for _, to, message in swarm.transcript:
        if to != here.participant.me or isinstance(message, JoinCertificate):
            continue
        if isinstance(message, Total | Release) and not here._over:
            light.append((type(message), is_light(message, here)))
        if not here._over and here.takes(message) and here.stage == "sums":
            here.receive(message, NOW)
    totals = [lightly for kind, lightly in light if kind is Total]
    releases = [lightly for kind, lightly in light if kind is Release]
    assert totals == [True] * (len(totals) - 1) + [False]
    assert releases == [True] * (threshold - 2) + [False], "its own is one of them"
    assert is_light(_first(swarm, Release), None), "the session is over: nothing is done"


def test_shares_and_sums_are_a_vector():
    additive, *_ = parts.machines(3)
    assert not additive.awaits_only(Share(H, H, H, 0))


def _first(swarm, kind):
    return next(message for _, _, message in swarm.transcript if isinstance(message, kind))
