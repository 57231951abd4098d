"""Dialects: records as they are written and read, and what is refused before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgpack
import pytest

from protocol.errors import RemoteProtocolError
from protocol.wire.dialect import Dialect
from protocol.wire.fields import Octets, Text


@dataclass(frozen=True)
class Question:
    words: Annotated[str, Text(8)]


@dataclass(frozen=True)
class Answer:
    data: Annotated[bytes, Octets(0, 100)]
    is_long: bool


@dataclass(frozen=True)
class End:
    pass


TALK: Dialect[Question | Answer | End] = Dialect("a talk", 3, (Question, Answer, End), 64)


@pytest.mark.parametrize("record", [Question("why"), Answer(b"because", True), Answer(b"", False), End()])
def test_a_record_is_read_as_it_was_written(record):
    assert TALK.read(TALK.write(record)) == record
    assert TALK.read(memoryview(TALK.write(record))) == record


def test_the_bytes_of_a_record():
    assert TALK.write(Question("why")) == msgpack.packb([3, 0, "why"])


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",
        msgpack.packb(3),
        msgpack.packb([3]),
        msgpack.packb(["3", 0, "why"]),
        msgpack.packb([2, 0, "why"]),
        msgpack.packb([3, 2, "why"]),
        msgpack.packb([3, 3, "why"]),
        msgpack.packb([3, -1, "why"]),
        msgpack.packb([3, True, b"", True]),
        msgpack.packb([3, 0]),
        msgpack.packb([3, 0, "why", "not"]),
        msgpack.packb([3, 0, "why it is so"]),
        msgpack.packb([3, 0, b"why"]),
        msgpack.packb([3, 0, {}]) + b"\x00",
        msgpack.packb([3, 0, {"a": 1}]),
        b"\x91" * 60,
        b"\xdc\xff\xff" + bytes(10),
        TALK.write(Answer(bytes(60), False)),
    ],
)
def test_what_breaks_a_limit_is_refused(packed):
    with pytest.raises(RemoteProtocolError):
        TALK.read(packed)
