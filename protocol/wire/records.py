"""Reads records from lists of plain values, and writes them so, as the types of their fields say.

A record is a frozen dataclass. Its fields are packed in their order, but for `payload`, which follows the
header of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache, lru_cache
from operator import attrgetter
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from protocol.errors import RemoteProtocolError
from protocol.wire.fields import Most, Octets, Passed, Reader, Text, Whole

PAYLOAD = "payload"
_ATOMS = frozenset((bytes, int, str, bool))
_KNOWN_RECORDS = 1024


def wrong(what: str, value: object) -> RemoteProtocolError:
    """The error for a value that is not `what`."""
    return RemoteProtocolError(f"{what} expected, not {type(value).__name__}")


@cache
def header_fields(kind: type) -> tuple[str, ...]:
    """The names of a record's fields in the header, in their order."""
    return tuple(field.name for field in fields(kind) if field.name != PAYLOAD)


def read_fields(kind: type, value: Any) -> list[Any]:
    """The values of a record's fields, each read by its reader."""
    return _read(kind, _readers(kind), value)


def _read(kind: type, readers: tuple[Reader, ...], value: Any) -> list[Any]:
    if type(value) is not list or len(value) != len(readers):
        raise wrong(f"the fields of {kind.__name__}", value)
    return [read_field(item) for read_field, item in zip(readers, value, strict=True)]


def records_in(kinds: Iterable[type]) -> Iterator[type]:
    """Yields these kinds of records, and those that their fields hold, each once."""
    waiting, found = [*kinds], set[type]()
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += _named(tuple(_hints(kind).values()))
            yield kind


def _named(hint: Any) -> list[type]:
    if isinstance(hint, type) and is_dataclass(hint):
        return [hint]
    parts = hint if type(hint) is tuple else get_args(hint)
    return [kind for part in parts for kind in _named(part)]


def plain(value: Any) -> Any:
    """The value that msgpack packs: records as lists of their fields, without payloads."""
    getter = _GETTERS[type(value)]
    if getter is not None:
        value = getter(value)
    elif type(value) is not tuple:
        return value
    return [item if type(item) in _ATOMS else plain(item) for item in value]


class _Getters(dict[type, Callable[[Any], tuple[Any, ...]] | None]):
    """For each kind of records, what gets its fields; for all else None. A dict is faster than a cache."""

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
        names = header_fields(kind) if is_dataclass(kind) else ()
        get = attrgetter(*names) if names else None
        self[kind] = (lambda value: (get(value),)) if get and len(names) == 1 else get
        return self[kind]


_GETTERS = _Getters()


def _hints(kind: type) -> dict[str, Any]:
    found = get_type_hints(kind, include_extras=True)
    return {name: found[name] for name in header_fields(kind)}


@cache
def _readers(kind: type) -> tuple[Reader, ...]:
    return tuple(reader(hint) for hint in _hints(kind).values())


@cache
def reader(hint: Any) -> Reader:
    """The reader of values of a type, as it is annotated; TypeError if nothing limits them."""
    if hint is bool:
        return _boolean
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return _enumerated(hint)
    if get_origin(hint) is not Annotated:
        return _record(hint)
    kind, *limits = get_args(hint)
    match limits[-1]:  # an alias may be narrowed
        case Octets(low, high):
            return _octets(low, high)
        case Text(high):
            return _text(high)
        case Whole(low, high):
            return _integer(low, high)
        case Most(high):
            return _many(get_args(kind)[0], high)
        case Passed.ON:
            return _passed_on(kind)
    reader: Reader = limits[-1]
    return reader


def _record(kind: type) -> Reader:
    if not is_dataclass(kind):
        raise TypeError(f"{kind!r} says no limit")
    readers = _readers(kind)

    def read(value: Any) -> Any:
        return kind(*_read(kind, readers, value))

    return read


def _passed_on(kind: type) -> Reader:
    built = lru_cache(maxsize=_KNOWN_RECORDS, typed=True)(lambda *values: kind(*read_fields(kind, [*values])))

    def read(value: Any) -> Any:
        try:
            return built(*value)
        except TypeError as error:  # not a list, or an item is not hashable
            raise wrong(f"the fields of {kind.__name__}", value) from error

    return read


def _octets(low: int, high: int) -> Reader:
    def read(value: Any) -> bytes:
        if type(value) is not bytes or not low <= len(value) <= high:
            raise wrong(f"{low} to {high} bytes", value)
        return value

    return read


def _text(high: int) -> Reader:
    def read(value: Any) -> str:
        if type(value) is not str or len(value) > high:
            raise wrong(f"text of at most {high} characters", value)
        return value

    return read


def _integer(low: int, high: int) -> Reader:
    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise wrong(f"an integer from {low} to {high}", value)
        return value

    return read


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise wrong("true or false", value)
    return value


def _enumerated(kind: type[IntEnum]) -> Reader:
    """A reader of the numbers of an enumeration."""
    known = frozenset(int(member) for member in kind)

    def read(value: Any) -> IntEnum:
        if type(value) is not int or value not in known:
            raise RemoteProtocolError(f"a {kind.__name__.lower()} of an unknown number")
        return kind(value)

    return read


def _many(hint: Any, high: int) -> Reader:
    """A reader of lists of at most `high` items, which it returns as a tuple."""
    read_one = reader(hint)

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > high:
            raise wrong(f"a list of at most {high}", value)
        return tuple([read_one(item) for item in value])

    match get_args(hint)[1:]:
        case (Octets(low, size),) if low == size:
            return _all_at_once(read, size, high)
    return read


def _all_at_once(one_by_one: Reader, size: int, high: int) -> Reader:
    def read(value: Any) -> tuple[bytes, ...]:
        is_fit = type(value) is list and 0 < len(value) <= high
        if is_fit and {*map(type, value)} == {bytes} and {*map(len, value)} == {size}:
            return tuple(value)
        found: tuple[bytes, ...] = one_by_one(value)
        return found

    return read
