"""Where each step of a federation's machines leads, as their behaviour shows."""

import pytest

from protocol.actions import Closed, Fatal, Send
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.federation import tags
from protocol.federation.client import KEEP_S, KNOCK_S, FederationClient
from protocol.federation.phases import WorkPhase
from protocol.federation.server import ASSEMBLE_S
from protocol.wire.messages import Done, Enlisted, Order
from tests.federations import RUN, SERVER, Federation, client, endpoint, enlist, instance, waiting
from tests.parts import NOW, heard

ENLISTED, DONE = (tags.tag(kind(instance(0)), RUN) for kind in (Enlisted, Done))


def enlisting() -> FederationClient:
    machine = client()
    machine.open(NOW)
    return machine


def enlisted() -> FederationClient:
    machine = enlisting()
    heard(machine, ENLISTED, NOW)
    return machine


def in_doubt() -> FederationClient:
    machine = enlisted()
    machine.unreachable(SERVER, "refused", NOW)
    return machine


@pytest.mark.parametrize("begin", [enlisting, enlisted, in_doubt])
def test_who_is_answered_is_enlisted(begin):
    """It greets the server now and then, and doubts it only if it cannot be reached."""
    machine = begin()
    assert heard(machine, ENLISTED, NOW) == []
    assert machine.tick(NOW + ASSEMBLE_S) == [Send(SERVER, (enlist(0),))]
    assert machine.deadline == NOW + ASSEMBLE_S + KEEP_S
    assert machine.unreachable(SERVER, "refused", NOW) == [Send(SERVER, (enlist(0),))]
    assert machine.deadline == NOW + KNOCK_S
    assert isinstance(machine.unreachable(SERVER, "refused", NOW)[0], Fatal)


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        *((begin, lambda one: heard(one, DONE, NOW), Closed) for begin in (enlisting, enlisted, in_doubt)),
        *((begin, lambda one: one.tick(NOW + ASSEMBLE_S), Fatal) for begin in (enlisting, in_doubt)),
        (in_doubt, lambda one: one.unreachable(SERVER, "refused", NOW), Fatal),
    ],
)
def test_who_has_ended_does_nothing_more(begin, end, said):
    machine = begin()
    assert [type(action) for action in end(machine)] == [said]
    assert machine.deadline is None
    assert machine.tick(NOW + ASSEMBLE_S) == machine.unreachable(SERVER, "refused", NOW) == []
    assert heard(machine, ENLISTED, NOW) == heard(machine, DONE, NOW) == [], "they crossed the end"
    with pytest.raises(RemoteProtocolError, match="to a client that has ended"):
        heard(machine, tags.tag(Order(instance(0), 1, (0,)), RUN), NOW)


def test_a_client_node_fills_the_model_of_its_last_order_and_is_idle_when_it_is_whole():
    machine = enlisted()
    phases = [machine._work.phase]
    for number in (1, 2):
        heard(machine, tags.tag(Order(instance(0), number, (0,)), RUN), NOW)
        phases.append(machine._work.phase)
    trained = Federation(1).open().begin(1, 0).clients[endpoint(0)]

    assert phases == [WorkPhase.IDLE, WorkPhase.FILLING, WorkPhase.FILLING]
    assert trained._work.phase is WorkPhase.IDLE


def test_a_server_that_has_closed_begins_nothing_and_closes_once():
    federation = Federation(1).open()
    federation.server.close(NOW)
    with pytest.raises(LocalProtocolError, match="begun"):
        federation.begin(1, 0)
    with pytest.raises(LocalProtocolError, match="CLOSE in CLOSED"):
        federation.server.close(NOW)


def test_a_server_closes_once_and_not_before_the_nodes_are_here():
    assembling, closed = Federation(2).open(0).server, waiting().server
    closed.close(NOW)
    for server, phase in ((assembling, "ASSEMBLING"), (closed, "CLOSED")):
        with pytest.raises(LocalProtocolError, match=f"CLOSE in {phase}"):
            server.close(NOW)
