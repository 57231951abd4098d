"""A request is answered once, in any order of requests."""

import random

import pytest

from protocol.swarm.requests import WINDOW, Answered, Requests
from protocol.wire import signing
from protocol.wire.messages import Accepted, CertificateRequest, PieceRequest
from tests.parts import members, settings, state

ONE, TWO = members(2)


def test_each_number_is_taken_once_in_any_order_within_the_window():
    answered, numbers = Answered(), list(range(1, WINDOW + 1))
    random.Random(1).shuffle(numbers)

    assert all(answered.takes(1, number) for number in numbers)
    assert not any(answered.takes(1, number) for number in numbers)


def test_what_falls_too_far_behind_may_have_come_and_is_refused():
    answered = Answered()
    assert answered.takes(1, 1000)

    assert answered.takes(1, 1000 - WINDOW + 1)
    assert not answered.takes(1, 1000 - WINDOW)
    assert answered.takes(1, 2000)
    assert not answered.takes(1, 1000)
    assert len(answered._numbers) == 1


def test_a_later_start_of_the_sender_begins_anew_and_an_earlier_one_is_over():
    answered = Answered()
    assert answered.takes(1, 1000)
    assert answered.takes(2, 1)
    assert not answered.takes(1, 1001)


@pytest.mark.parametrize(
    "request_", [CertificateRequest(bytes(32), ONE.public), PieceRequest(bytes(32), b"", 3, ONE.public)]
)
def test_requests_leave_with_a_name_a_number_and_a_signature(request_):
    where = state()
    where.epoch = 5
    requests = Requests(settings(ONE), where)
    other = Accepted(bytes(16))
    first, same, second = requests.signed(TWO.public, (request_, other, request_))

    assert same is other
    assert (first.to, first.epoch, first.number, second.number) == (TWO.public, 5, 1, 2)
    for each in (first, second):
        signing.verify(each, ONE.public)


def test_what_is_no_request_leaves_as_it_is():
    messages = (Accepted(bytes(16)),)

    assert Requests(settings(ONE), state()).signed(TWO.public, messages) is messages
