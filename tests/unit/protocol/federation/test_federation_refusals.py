"""What the two machines of a federation refuse, without any effect."""

from dataclasses import replace

import numpy as np
import pytest

from protocol.actions import Closed
from protocol.errors import LocalProtocolError, NotFiniteError, RemoteProtocolError, TooEarly
from protocol.federation import tags
from protocol.swarm.meeting.tracker import Tracker
from protocol.vectors.pieces import PIECE_WORDS, WORD_BYTES
from protocol.wire.messages import Accepted, Done, Enlist, Enlisted, ModelPiece, Order
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
from tests.parts import NOW, heard, members
from tests.samples import SAMPLES
from tests.wires import node


@pytest.mark.parametrize(
    "message",
    [
        enlist(0, run=bytes(32)),
        replace(enlist(1), node=0),
        replace(enlist(0), tag=bytes(32)),
        replace(enlist(0), tag=b""),
        replace(upload(0, 0), payload=bytes(4 * SMALL - 1) + b"\1"),
        replace(upload(0, 0), client=2),
        tags.tag(replace(upload(0, 0), tag=b""), bytes(32)),
    ],
)
def test_strangers_and_other_runs_change_nothing_at_a_server(message):
    federation = waiting()
    with pytest.raises(RemoteProtocolError, match="of another run"):
        federation.hand(SERVER, message)
    federation.busy = False
    assert federation.server.nodes == (0, 1)


@pytest.mark.parametrize(
    "message",
    [
        Enlisted(instance(0)),
        Order(instance(0), 1, (0,)),
        ModelPiece(1, 0, payload=bytes(4 * SMALL)),
        Done(instance(0)),
    ],
)
def test_strangers_and_other_runs_change_nothing_at_a_client(message):
    federation = Federation(1).open()
    with pytest.raises(RemoteProtocolError, match="of another run"):
        federation.hand(endpoint(0), tags.tag(message, bytes(32)))
    assert federation.ends(Closed) == []
    assert list(federation.begin(1, 0).gathered()) == [0]


@pytest.mark.parametrize("message", [Enlisted(instance(1)), Order(instance(1), 1, (0,)), Done(instance(1))])
def test_what_is_meant_for_another_instance_is_refused(message):
    with pytest.raises(RemoteProtocolError, match="to another instance"):
        heard(client(0), tags.tag(message, RUN), NOW)


def test_a_node_beyond_the_number_of_nodes_is_refused():
    with pytest.raises(RemoteProtocolError, match="node 2 of 2"):
        Federation(2).open().hand(SERVER, enlist(2))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (upload(0, 0, number=2), "another round"),
        (upload(0, 0, number=0), "another round"),
        (upload(3, 0), "nobody waits for"),
        (upload(0, 1), "client 1, which nobody waits for"),
        (upload(0, 4), "client 4, which nobody waits for"),
        (upload(0, 0, index=1), "piece 1 of a vector"),
        (upload(0, 0, payload=bytes(4 * SMALL + 4)), "24 bytes, which is not its size"),
        (upload(0, 0, payload=b""), "0 bytes, which is not its size"),
        (upload(0, 0, payload=np.array([0, 0, np.nan, 0, 0], "<f4").tobytes()), "not finite"),
        (upload(0, 0, payload=np.array([0, 0, 0, 0, -np.inf], "<f4").tobytes()), "not finite"),
    ],
)
def test_an_upload_that_breaks_a_rule_is_refused_and_the_right_one_still_counts(message, why):
    federation = waiting()
    with pytest.raises(RemoteProtocolError, match=why):
        federation.hand(SERVER, message)
    for number in range(4):
        federation.hand(SERVER, upload(number % 2, number))
    assert list(federation.gathered()) == [0, 1, 2, 3]


def test_an_upload_counts_once_and_is_late_after_its_round():
    federation = waiting()
    federation.hand(SERVER, upload(0, 0))
    with pytest.raises(RemoteProtocolError, match="client 0, which nobody waits for"):
        federation.hand(SERVER, upload(0, 0))
    federation.hand(SERVER, upload(0, 2))
    with pytest.raises(RemoteProtocolError, match="another round"):
        federation.hand(SERVER, upload(0, 0))
    for number in (1, 3):
        federation.hand(SERVER, upload(1, number))
    with pytest.raises(RemoteProtocolError, match="another round"):
        federation.hand(SERVER, upload(0, 0))


def test_pieces_come_in_any_order_and_each_once():
    federation = waiting(1, LARGE)
    last = {"index": 1, "payload": np.full(3, 2, "<f4").tobytes()}
    first = {"index": 0, "payload": np.full(PIECE_WORDS, 1, "<f4").tobytes()}
    federation.hand(SERVER, upload(0, 0, **last))
    with pytest.raises(RemoteProtocolError, match="piece 1 of a vector, which was here"):
        federation.hand(SERVER, upload(0, 0, **last))
    with pytest.raises(RemoteProtocolError, match="not its size"):
        federation.hand(SERVER, upload(0, 0, index=0, payload=last["payload"]))
    federation.hand(SERVER, upload(0, 0, **first))
    federation.act(SERVER, federation.server.unreachable(endpoint(0), "refused", NOW))

    vector = federation.gathered()[0]
    assert (vector[:PIECE_WORDS].sum(), vector[PIECE_WORDS:].tolist()) == (PIECE_WORDS, [2, 2, 2])
    assert vector.nbytes == WORD_BYTES * LARGE


def order(number: int) -> Order:
    return tags.tag(Order(instance(0), number, (0,)), RUN)


def model(number: int, payload: bytes = bytes(4 * SMALL)) -> ModelPiece:
    return tags.tag(ModelPiece(number, 0, payload=payload), RUN)


def test_a_model_before_its_order_is_too_early_and_one_of_a_round_that_is_over_is_refused():
    machine = client()
    with pytest.raises(TooEarly):
        heard(machine, model(1), NOW)
    assert machine.round == 0
    heard(machine, order(2), NOW)
    with pytest.raises(RemoteProtocolError, match="a model for round 1 that nobody waits for"):
        heard(machine, model(1), NOW)
    with pytest.raises(RemoteProtocolError, match="not its size"):
        heard(machine, model(2, bytes(4)), NOW)
    (train,) = heard(machine, model(2), NOW)
    assert (train.round, train.clients) == (2, (0,))
    with pytest.raises(RemoteProtocolError, match="a model for round 2 that nobody waits for"):
        heard(machine, model(2), NOW)


def test_a_model_of_round_0_is_nobodys():
    with pytest.raises(RemoteProtocolError, match="that nobody waits for"):
        heard(client(), model(0), NOW)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_order_for_a_round_that_is_over_is_refused(number):
    machine = client()
    heard(machine, order(2), NOW)
    with pytest.raises(RemoteProtocolError, match=f"an order for round {number} in round 2"):
        heard(machine, order(number), NOW)


def test_a_new_order_ends_the_wait_for_the_model_before():
    machine = client()
    heard(machine, order(1), NOW)
    heard(machine, order(2), NOW)
    (train,) = heard(machine, model(2), NOW)
    assert train.round == 2


def test_what_was_trained_for_a_round_that_is_over_stays_at_home():
    machine = client()
    heard(machine, order(1), NOW)
    heard(machine, model(1), NOW)
    assert len(machine.trained(1, 0, np.ones(SMALL, np.float32), NOW)) == 1
    heard(machine, order(2), NOW)
    assert machine.trained(1, 0, np.ones(SMALL, np.float32), NOW) == []


def test_an_upload_of_another_size_or_not_finite_is_our_own_fault():
    machine = client()
    with pytest.raises(LocalProtocolError):
        machine.trained(0, 0, np.zeros(SMALL - 1, np.float32), NOW)
    with pytest.raises(NotFiniteError, match="client 3 in round 0"):
        machine.trained(0, 3, np.full(SMALL, np.inf, np.float32), NOW)


@pytest.mark.parametrize("message", [*(s for s in SAMPLES if isinstance(s, Accepted | Enlisted))])
def test_what_is_no_business_of_a_server_is_refused(message):
    with pytest.raises(RemoteProtocolError, match="to the server of a federation"):
        Federation(1).open().hand(SERVER, message)


@pytest.mark.parametrize("message", [*(s for s in SAMPLES if isinstance(s, Accepted | Enlist))])
def test_what_is_no_business_of_a_client_is_refused(message):
    with pytest.raises(RemoteProtocolError, match="to a client of a federation"):
        heard(client(), message, NOW)


@pytest.mark.parametrize("message", [s for s in SAMPLES if isinstance(s, tags.Federated)])
def test_peers_and_trackers_take_no_part_in_a_federation(message):
    keys = members(3)
    with pytest.raises(RemoteProtocolError, match=f"takes no {type(message).__name__}"):
        heard(node(keys[0]), message, NOW)
    with pytest.raises(RemoteProtocolError, match=f"takes no {type(message).__name__}"):
        heard(Tracker(keys[0], 3, None), message, NOW)
