"""The readers of header fields."""

from __future__ import annotations

import pytest

from protocol.errors import RemoteProtocolError
from protocol.wire.fields import many, many_octets, octets

ONE_BY_ONE, AT_ONCE = many(octets(32, 32), 3), many_octets(32, 3)


@pytest.mark.parametrize("count", range(4))
def test_many_octets_are_read_at_once_as_one_by_one(count):
    value = [bytes([number]) * 32 for number in range(count)]
    assert AT_ONCE(value) == ONE_BY_ONE(value) == tuple(value)


@pytest.mark.parametrize(
    "value",
    [[bytes(32)] * 4, (bytes(32),), None, [bytes(31)], [bytes(32), bytes(33)], [bytes(32), "a" * 32], [[]]],
    ids=str,
)
def test_what_is_wrong_one_by_one_is_as_wrong_at_once(value):
    with pytest.raises(RemoteProtocolError) as one_by_one:
        ONE_BY_ONE(value)
    with pytest.raises(RemoteProtocolError) as at_once:
        AT_ONCE(value)
    assert str(at_once.value) == str(one_by_one.value)
