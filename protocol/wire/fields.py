"""Readers of header fields: each returns an unpacked value, or raises RemoteProtocolError if invalid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.errors import RemoteProtocolError
from protocol.wire.endpoints import is_canonical

Reader = Callable[[Any], Any]


def wrong(what: str, value: object) -> RemoteProtocolError:
    """The error for a value that is not `what`."""
    return RemoteProtocolError(f"{what} expected, not {type(value).__name__}")


def octets(low: int, high: int) -> Reader:
    """A reader of byte strings of `low` to `high` bytes."""

    def read(value: Any) -> bytes:
        if type(value) is not bytes or not low <= len(value) <= high:
            raise wrong(f"{low} to {high} bytes", value)
        return value

    return read


def text(high: int) -> Reader:
    """A reader of texts of at most `high` characters."""

    def read(value: Any) -> str:
        if type(value) is not str or len(value) > high:
            raise wrong(f"text of at most {high} characters", value)
        return value

    return read


def endpoint(value: Any) -> str:
    """An endpoint in the canonical form of protocol.wire.endpoints: nodes dial it unchanged."""
    if type(value) is not str or not is_canonical(value):
        raise RemoteProtocolError("an endpoint that is not HOST:PORT in its one form")
    return value


def integer(low: int, high: int) -> Reader:
    """A reader of integers from `low` to `high`; it refuses booleans."""

    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise wrong(f"an integer from {low} to {high}", value)
        return value

    return read


def boolean(value: Any) -> bool:
    """Reads a boolean."""
    if type(value) is not bool:
        raise wrong("true or false", value)
    return value


def many(read_one: Reader, high: int) -> Reader:
    """A reader of lists of at most `high` items, which it returns as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > high:
            raise wrong(f"a list of at most {high}", value)
        return tuple([read_one(item) for item in value])

    return read


def many_octets(size: int, high: int) -> Reader:
    """A reader of lists of at most `high` byte strings of `size` bytes: `many`, but for all at once."""
    one_by_one = many(octets(size, size), high)

    def read(value: Any) -> tuple[bytes, ...]:
        is_fit = type(value) is list and len(value) <= high
        if is_fit and {*map(type, value)} == {bytes} and {*map(len, value)} == {size}:
            return tuple(value)
        found: tuple[bytes, ...] = one_by_one(value)
        return found

    return read
