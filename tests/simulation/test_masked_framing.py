"""A liar's forged evidence must not lead to accusations of honest members."""

from dataclasses import replace
from functools import cache

import pytest

from protocol.aggregation.equivocation import RULES
from protocol.aggregation.masked.disputes import inputs_digest
from protocol.aggregation.masked.reduction import Reduction
from protocol.errors import RemoteProtocolError
from protocol.wire.masked_messages import Check, Masked, Total, TotalHead
from tests import parts
from tests.simulation import lies
from tests.simulation.bare import Swarm
from tests.simulation.lies import LIAR
from tests.simulation.mutations import LAYOUTS, begin, machine, real_messages
from tests.simulation.schedules import REDUCERS, Schedule, remembered

SEEDS = range(10)


@cache
def old_heads(seed: int) -> tuple[TotalHead, ...]:
    """Returns what honest reducers signed in another session of the same group."""
    other = next(
        swarm
        for number in range(seed + 1, seed + 50)
        if (swarm := Swarm(Schedule(number, 5, REDUCERS)).run()).members[0].participant.sid
        != Swarm(Schedule(seed, 5, REDUCERS)).members[0].participant.sid
    )
    checks = (message for _, _, message in other.transcript if isinstance(message, Check))
    return next(check.heads for check in checks)


def test_heads_of_another_session_are_no_evidence():
    """Their reducers signed other totals there, so the totals differ legitimately."""
    for seed in SEEDS:
        with remembered():
            old = old_heads(seed)

            def lie(member, to, message, old=old):
                return (replace(message, heads=old),) if isinstance(message, Check) else (message,)

            Swarm(Schedule(seed, 5, REDUCERS), {LIAR: lie}).run()


@pytest.mark.parametrize("slow_s", [0.05, 0.3, 0.6])
def test_two_totals_are_seen_whatever_comes_first(slow_s):
    """The liar names them in no check: the checks that honest members exchange reveal it."""
    for seed in SEEDS:
        with remembered():
            schedule = Schedule(seed, 5, REDUCERS, delay_s=(0.001, slow_s))
            swarm = Swarm(schedule, {LIAR: lies.two_totals}).run()
        found = {evidence.what for member in swarm.honest for evidence in member.evidence}
        assert RULES[TotalHead].what in found, schedule


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_member_did_not_sign_does_not_bring_it_back(layout):
    """It is gone, and another member writes in its name. A leader would wait for its vote in vain."""
    here, messages = machine(layout), real_messages(layout)
    begin(here, messages)
    chunk = next(message for message in messages if isinstance(message, Masked))
    forged = replace(chunk, head=replace(chunk.head, signature=bytes(64)))
    here.unreachable(chunk.head.sender, parts.NOW)
    with pytest.raises(RemoteProtocolError, match="bad masked signature"):
        here.receive(forged, parts.NOW)
    assert chunk.head.sender in here._rounds._views.gone
    here.receive(chunk, parts.NOW)
    assert chunk.head.sender not in here._rounds._views.gone


def test_inputs_that_nobody_signed_do_not_blame_their_owners(monkeypatch: pytest.MonkeyPatch):
    """A false total comes with a made-up head of member 0's chunk: the reducer is to blame."""
    honest = Reduction._sum

    def added(reduction: Reduction, found, index: int) -> bytes:
        payload = honest(reduction, found, index)
        return lies.plus(1, 0)(payload) if reduction._participant.number == LIAR else payload

    def lie(member, to, message):
        if not isinstance(message, Total):
            return (message,)
        inputs = (replace(message.inputs[0], digest=bytes(32)), *message.inputs[1:])
        head = lies.resigned(member, message.head, inputs=inputs_digest(inputs))
        return (replace(message, head=head, inputs=inputs),)

    monkeypatch.setattr(Reduction, "_sum", added)
    seen: list[bool] = []
    for seed in SEEDS:
        with remembered():
            swarm = Swarm(Schedule(seed, 5, REDUCERS), {LIAR: lie}).run()
        liar = swarm.members[LIAR].participant.me
        seen.append(any(member.evidence for member in swarm.honest))
        without = all(liar not in member.end.contributors for member in swarm.completed)
        assert seen[-1] or without, swarm.schedule
    assert any(seen)
