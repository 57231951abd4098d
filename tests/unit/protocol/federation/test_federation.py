"""The two machines of a federation with a server: rounds, and nodes that come and leave."""

from itertools import permutations

import numpy as np
import pytest

from protocol.actions import Assembled, Closed, Fatal, Gathered, Notice, Send, Train
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.federation import tags
from protocol.federation.client import KEEP_S, KNOCK_S
from protocol.federation.server import ASSEMBLE_S, SILENCE_S, FederationServer
from protocol.vectors.pieces import PIECE_WORDS
from protocol.wire.messages import Done, Enlisted, ModelPiece, Order
from tests.federations import (
    LARGE,
    RUN,
    SERVER,
    SMALL,
    Federation,
    client,
    endpoint,
    enlist,
    instance,
    upload,
    waiting,
)
from tests.parts import NOW, heard

# -- rounds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, SMALL, PIECE_WORDS, LARGE])
def test_what_chosen_clients_send_comes_back_in_their_order(dimension):
    federation = Federation(3, dimension).open().begin(1, 7, 0, 4, 3)

    uploads = federation.gathered()
    assert list(uploads) == [7, 0, 4, 3]
    for number, vector in uploads.items():
        assert np.array_equal(vector, np.arange(dimension, dtype=np.float32) + number + 1)
    assert federation.errors == []


def test_clients_are_dealt_to_nodes_by_their_number_and_nodes_without_any_hear_nothing():
    federation = Federation(3).open().begin(1, 0, 4, 3)

    orders = {where: action.clients for where, action in federation.done if isinstance(action, Train)}
    assert orders == {endpoint(0): (0, 3), endpoint(1): (4,)}


def test_rounds_follow_each_other():
    federation = Federation(2).open().begin(1, 0, 1).begin(2, 1).begin(3, 0)

    assert [(ended.round, list(ended.uploads)) for ended in federation.ends(Gathered)] == [
        (1, [0, 1]),
        (2, [1]),
        (3, [0]),
    ]


def test_a_round_of_clients_whose_nodes_never_came_ends_at_once():
    federation = Federation(2).open(0)
    federation.act(SERVER, federation.server.tick(NOW + ASSEMBLE_S)).begin(1, 1, 3)

    assert federation.gathered() == {}


def test_a_model_of_another_order_of_bytes_or_in_strides_travels_as_it_is():
    federation = Federation(1).open()
    model = np.arange(2 * SMALL, dtype=">f4")[::2]
    federation.act(SERVER, federation.server.begin(1, model, [0], NOW))

    assert np.array_equal(federation.gathered()[0], np.arange(0, 2 * SMALL, 2) + 1)


def test_a_round_begun_too_early_or_inside_another_or_with_another_model_is_our_own_fault():
    federation = Federation(1)
    federation.busy = True
    federation.act(SERVER, federation.server.open(NOW))
    with pytest.raises(LocalProtocolError):
        federation.begin(1, 0)
    federation.open()
    with pytest.raises(LocalProtocolError):
        federation.server.begin(1, np.zeros(SMALL + 1, np.float32), [0], NOW)
    federation.begin(1, 0)
    with pytest.raises(LocalProtocolError):
        federation.begin(2, 0)


def test_the_end_is_told_to_every_node():
    federation = Federation(2).open()
    federation.act(SERVER, federation.server.close(NOW))

    assert [where for where, action in federation.done if isinstance(action, Closed)] == [
        SERVER,
        endpoint(0),
        endpoint(1),
    ]
    assert [machine.deadline for machine in federation.clients.values()] == [None, None]


def test_after_the_end_the_server_misses_nobody_and_knows_only_that_it_is_over():
    """A node ends with its links once it knows: no loss is reported, whatever comes in between."""
    federation = Federation(2).open()
    server = federation.server
    server.close(NOW)
    done = [Send(endpoint(0), (tags.tag(Done(instance(0)), RUN),))]
    for _ in range(2):
        assert heard(server, enlist(0), NOW) == done  # it crossed the end, or did not hear of it
        for node in (0, 1):
            assert server.unreachable(endpoint(node), "connection refused", NOW) == []
            assert server.reconnected(endpoint(node), NOW) == []
        assert server.tick(NOW + SILENCE_S) == []
    assert (server.nodes, server.deadline) == ((), None)


def test_a_server_that_ends_inside_a_round_waits_for_nobody():
    federation = waiting()
    federation.server.close(NOW)
    assert federation.server.deadline is None
    assert federation.server.unreachable(endpoint(0), "refused", NOW) == []
    with pytest.raises(RemoteProtocolError, match="nobody waits for"):
        heard(federation.server, upload(0, 0), NOW)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_after_the_end_a_client_s_node_misses_no_server_and_says_nothing(order):
    federation = waiting(1)
    machine = federation.clients[endpoint(0)]
    federation.act(SERVER, federation.server.close(NOW))
    later = [
        lambda: heard(machine, tags.tag(Enlisted(instance(0)), RUN), NOW),
        lambda: heard(machine, tags.tag(Done(instance(0)), RUN), NOW),
        lambda: machine.unreachable(SERVER, "connection refused", NOW),
        lambda: machine.tick(NOW + KEEP_S) + machine.trained(1, 0, np.zeros(SMALL, np.float32), NOW),
    ]
    assert [later[event]() for event in (*order, *order)] == [[]] * 8
    assert machine.deadline is None


def test_after_the_end_a_client_s_node_takes_no_work():
    machine = client()
    machine.open(NOW)
    heard(machine, tags.tag(Order(instance(0), 1, (0,)), RUN), NOW)
    heard(machine, tags.tag(Done(instance(0)), RUN), NOW)
    for message in (Order(instance(0), 2, (0,)), ModelPiece(1, 0, payload=bytes(4 * SMALL))):
        with pytest.raises(RemoteProtocolError, match="to a client that has ended"):
            heard(machine, tags.tag(message, RUN), NOW)


# -- coming ------------------------------------------------------------------------------------------------


def test_rounds_may_begin_when_all_nodes_are_here():
    federation = Federation(2).open(0)
    assert (federation.ends(Assembled), federation.server.nodes) == ([], (0,))
    assert federation.server.deadline == NOW + ASSEMBLE_S

    federation.act(endpoint(1), federation.clients[endpoint(1)].open(NOW))
    assert (federation.ends(Assembled), federation.server.nodes) == ([Assembled()], (0, 1))
    assert federation.server.deadline is None


def test_rounds_begin_without_a_node_that_does_not_come_and_it_may_come_later():
    federation = Federation(3).open(1)
    assert federation.server.tick(NOW + ASSEMBLE_S - 1) == []
    federation.act(SERVER, federation.server.tick(NOW + ASSEMBLE_S))
    assert [action for _, action in federation.done[-2:]] == [
        Notice("lost", "node 0, 2", f"not here after {ASSEMBLE_S:g} s"),
        Assembled(),
    ]

    federation.act(endpoint(0), federation.clients[endpoint(0)].open(NOW)).begin(1, 0, 1, 2)
    assert list(federation.gathered()) == [0, 1]


def test_a_server_to_whom_nobody_comes_ends():
    server = FederationServer(RUN, SMALL, 2)
    assert server.open(NOW) == []
    assert server.tick(NOW + ASSEMBLE_S) == [Fatal("none of 2 client nodes came within 120 s")]


def test_a_node_enlists_until_it_is_answered_and_then_now_and_then():
    machine = client()
    assert machine.open(NOW) == [Send(SERVER, (enlist(0),))]
    assert machine.deadline == NOW + KNOCK_S
    assert machine.unreachable(SERVER, "refused", NOW) == []
    assert machine.tick(NOW + KNOCK_S) == [Send(SERVER, (enlist(0),))]

    assert heard(machine, tags.tag(Enlisted(instance(0)), RUN), NOW + 1) == []
    assert machine.deadline == NOW + 1 + KEEP_S
    assert machine.tick(NOW + ASSEMBLE_S + 1) == [Send(SERVER, (enlist(0),))]
    assert machine.deadline == NOW + ASSEMBLE_S + 1 + KEEP_S


def test_a_node_whose_server_never_comes_ends():
    machine = client()
    machine.open(NOW)
    assert machine.tick(NOW + ASSEMBLE_S) == [Fatal(f"no server at {SERVER} answered within 120 s")]
    assert machine.deadline is None


def test_a_node_whose_server_is_gone_ends_and_others_do_not_matter():
    federation = Federation(1).open()
    machine = federation.clients[endpoint(0)]
    assert machine.unreachable(endpoint(5), "refused", NOW) == []
    assert machine.reconnected(SERVER, NOW) == []
    assert machine.unreachable(SERVER, "refused", NOW) == [Send(SERVER, (enlist(0),))]
    assert machine.unreachable(SERVER, "refused", NOW) == [Fatal(f"the server at {SERVER} is gone: refused")]
    assert machine.deadline is None


def test_a_server_that_could_not_be_reached_once_is_still_the_server():
    federation = Federation(1).open()
    machine = federation.clients[endpoint(0)]
    for _ in range(3):
        federation.act(endpoint(0), machine.unreachable(SERVER, "does not answer in time", NOW))
        assert machine.deadline == NOW + KEEP_S
    assert list(federation.begin(1, 0).gathered()) == [0]


def test_a_node_that_enlists_again_is_answered_and_counted_once():
    federation = Federation(2).open(0)
    assert heard(federation.server, enlist(0), NOW) == [
        Send(endpoint(0), (tags.tag(Enlisted(instance(0)), RUN),))
    ]
    assert federation.server.nodes == (0,)
    assert federation.server.reconnected(endpoint(0), NOW) == []


# -- leaving -----------------------------------------------------------------------------------------------


def test_a_node_that_is_gone_is_not_waited_for_and_what_it_had_sent_counts():
    federation = waiting()
    federation.hand(SERVER, upload(0, 2))
    federation.hand(SERVER, upload(1, 3))
    federation.act(SERVER, federation.server.unreachable(endpoint(0), "connection refused", NOW))
    assert federation.ends(Gathered) == []
    federation.hand(SERVER, upload(1, 1))

    assert list(federation.gathered()) == [1, 2, 3]
    assert Notice("lost", "node 0", "connection refused") in federation.ends(Notice)


def test_the_last_node_to_go_ends_the_round():
    federation = waiting()
    for node in (0, 1):
        federation.act(SERVER, federation.server.unreachable(endpoint(node), "refused", NOW))

    assert federation.gathered() == {}
    assert federation.server.begin(2, np.zeros(SMALL, np.float32), [0], NOW) == [
        Fatal("every client node is gone")
    ]


def test_a_node_that_nobody_waits_for_may_go():
    federation = Federation(2).open()
    federation.act(SERVER, federation.server.unreachable(endpoint(1), "refused", NOW))
    federation.act(SERVER, federation.server.unreachable("127.0.0.1:1", "refused", NOW)).begin(1, 0, 1)

    assert list(federation.gathered()) == [0]


def test_a_silent_node_is_given_up_and_each_piece_renews_its_time():
    federation = waiting()
    federation.now += 100
    federation.hand(SERVER, upload(1, 1))
    assert federation.server.deadline == NOW + SILENCE_S
    assert federation.server.tick(NOW + SILENCE_S - 1) == []
    federation.act(SERVER, federation.server.tick(NOW + SILENCE_S))

    assert federation.server.nodes == (1,)
    assert federation.server.deadline == NOW + 100 + SILENCE_S
    federation.act(SERVER, federation.server.tick(NOW + 100 + SILENCE_S))
    assert list(federation.gathered()) == [1]
    assert federation.server.deadline is None
    assert federation.server.tick(NOW + 10_000) == []


def test_a_node_that_was_given_up_too_early_is_back_for_the_next_round():
    federation = waiting()
    federation.act(SERVER, federation.server.tick(NOW + SILENCE_S))
    assert federation.gathered() == {}
    federation.done.clear()
    federation.busy = False
    for where, machine in federation.clients.items():
        federation.act(where, machine.tick(NOW + SILENCE_S))
    federation.begin(2, 0, 1)

    assert list(federation.gathered()) == [0, 1]


def test_a_node_that_starts_anew_is_not_waited_for_and_has_work_in_the_next_round():
    federation = waiting(2)
    federation.hand(SERVER, upload(1, 1))
    federation.hand(SERVER, upload(1, 3))
    federation.clients[endpoint(0)] = client(0, start=1)
    federation.act(endpoint(0), federation.clients[endpoint(0)].open(NOW))
    assert list(federation.gathered()) == [1, 3]
    assert Notice("lost", "node 0", "started anew") in federation.ends(Notice)

    federation.done.clear()
    federation.busy = False
    federation.begin(2, 0, 1)
    assert list(federation.gathered()) == [0, 1]
