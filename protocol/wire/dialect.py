"""Dialects: small closed sets of records that two ends exchange beside the nodes' own messages.

A record goes as a msgpack array: the dialect's version, the number of the record's kind, its fields. Limits
hold before anything is built, as in protocol.wire.codec.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgpack

from protocol.errors import RemoteProtocolError
from protocol.wire.records import header_fields, plain, read_fields, wrong

Record = TypeVar("Record")
_MOST_ITEMS = 1024
"""Items of an array: more than any record of a dialect lists."""


class Dialect(Generic[Record]):
    """Kinds of records, numbered in their order, each at most `most_bytes` when packed."""

    def __init__(self, name: str, version: int, kinds: tuple[type, ...], most_bytes: int) -> None:
        self._name = name
        self._version = version
        self._kinds = kinds
        self._most_bytes = most_bytes
        self._numbers = {kind: number for number, kind in enumerate(kinds)}

    def write(self, record: Record) -> bytes:
        """The bytes of a record."""
        kind: type = type(record)
        values = plain(record) if header_fields(kind) else ()
        return bytes(msgpack.packb([self._version, self._numbers[kind], *values]))

    def read(self, packed: bytes | memoryview) -> Record:
        """The record in these bytes. Raises RemoteProtocolError if a limit or a type is violated."""
        if len(packed) > self._most_bytes:
            raise RemoteProtocolError(f"{len(packed)} bytes of {self._name}; {self._most_bytes} are allowed")
        values = self._unpack(packed)
        if type(values) is not list or len(values) < 2 or type(values[0]) is not int:
            raise wrong(f"a record of {self._name}", values)
        if values[0] != self._version:
            raise RemoteProtocolError(f"{self._name} of version {values[0]}, not {self._version}")
        if type(values[1]) is not int or not 0 <= values[1] < len(self._kinds):
            raise wrong(f"the number of a record of {self._name}", values[1])
        kind: Any = self._kinds[values[1]]
        return kind(*read_fields(kind, values[2:]))  # type: ignore[no-any-return]

    def _unpack(self, packed: bytes | memoryview) -> Any:
        try:
            return msgpack.unpackb(packed, max_array_len=_MOST_ITEMS, max_map_len=0, max_ext_len=0)
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise RemoteProtocolError(f"bytes that are no {self._name}") from error
