"""Parts of a session count from its members alone: an outsider is refused, whatever it passes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.errors import RemoteProtocolError
from protocol.wire.messages import Share, Sum
from tests.parts import endpoint, members, stranger
from tests.wires import Wires


@pytest.mark.parametrize("kind", [Share, Sum])
def test_what_an_outsider_brings_of_a_session_is_refused_and_a_member_s_counts(kind):
    keys, held = members(3), []
    wires = Wires(keys).open()
    wires.dropped = lambda _from, to, message: isinstance(message, kind) and not held.append((to, message))
    wires.offer()
    to, message = held[0]
    node = next(wires[key] for key in keys if endpoint(key) == to)
    outsider = stranger().public
    brought = replace(message, sender=outsider) if kind is Share else message
    with pytest.raises(RemoteProtocolError, match="from somebody who is not in it"):
        node.receive(brought, outsider, wires.now)
    node.receive(message, message.sender, wires.now)
