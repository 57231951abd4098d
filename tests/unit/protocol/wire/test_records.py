"""The readers of fields, as their types ask for them; what a message declares is read, packed and found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest

from protocol.errors import RemoteProtocolError
from protocol.wire.fields import Count, Digest, Most, Nonce, Signature, Signed
from protocol.wire.records import header_fields, plain, read_fields, reader, records_in

ONE, MANY = reader(Digest), reader(Annotated[tuple[Digest, ...], Most(3)])


@pytest.mark.parametrize("count", range(4))
def test_many_octets_are_read_at_once_as_one_by_one(count):
    value = [bytes([number]) * 32 for number in range(count)]
    assert MANY(value) == tuple(ONE(item) for item in value) == tuple(value)


@pytest.mark.parametrize(
    "value", [[bytes(31)], [bytes(32), bytes(33)], [bytes(32), "a" * 32], [[]], [None]], ids=str
)
def test_what_is_wrong_one_by_one_is_as_wrong_at_once(value):
    with pytest.raises(RemoteProtocolError) as one_by_one:
        ONE(value[-1])
    with pytest.raises(RemoteProtocolError) as at_once:
        MANY(value)
    assert str(at_once.value) == str(one_by_one.value)


@pytest.mark.parametrize("value", [[bytes(32)] * 4, (bytes(32),), None], ids=str)
def test_what_is_no_list_or_too_long_is_refused(value):
    with pytest.raises(RemoteProtocolError, match="a list of at most 3 expected"):
        MANY(value)


@dataclass(frozen=True, slots=True)
class Part(Signed):
    label = b"part"

    weight: Count
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Made:
    nonce: Nonce
    parts: Annotated[tuple[Part, ...], Most(2)]
    payload: bytes = b""


def test_a_message_is_read_and_packed_as_its_class_alone_says():
    made = Made(bytes(16), (Part(3, bytes(64)), Part(4, bytes(64))), b"bulk")

    packed = plain(made)

    assert header_fields(Made) == ("nonce", "parts")
    assert packed == [bytes(16), [[3, bytes(64)], [4, bytes(64)]]]
    assert Made(*read_fields(Made, packed), b"bulk") == made
    assert set(records_in([Made])) == {Made, Part}
    for wrong in (packed[:1], [bytes(15), []], [bytes(16), [[3, bytes(63)]]], [bytes(16), [[-1, bytes(64)]]]):
        with pytest.raises(RemoteProtocolError):
            read_fields(Made, wrong)


def test_a_field_without_a_limit_is_no_field():
    with pytest.raises(TypeError, match="says no limit"):
        reader(int)
