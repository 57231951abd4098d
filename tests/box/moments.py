"""The moment at which something happens to a node, its death for example: an exact message of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from protocol.wire import signing
from protocol.wire.masked_messages import MaskedMessage, session_of
from protocol.wire.messages import Group, Message, Share, Sid, Sum
from tests.box.box import Box, BoxNode, Watcher


@dataclass(frozen=True)
class Moment:
    """Message `nth` of a kind in the node's session of this number; while none has begun, in the next one.

    Before it is sent or handled, so that it has no effect. `leaving`: as it is handed to the network.
    `after`: at the next message of any kind, so that this one was sent or took effect.
    """

    kind: type[Message]
    nth: int = 1
    session: int = 2
    way: str = "out"
    leaving: bool = False
    after: bool = False

    def arrange(self, node: BoxNode, act: Callable[[], None]) -> None:
        """Calls `act` at this moment of the node, whose first session has not begun yet."""
        sids = _Sessions(node).sids

        def fits(message: Message) -> bool:
            sid = _sid(message)
            return (sids.index(sid) if sid in sids else len(sids)) == self.session - 1

        def then() -> None:
            if self.leaving:
                node.box.at(0.0, act)
            elif self.after:
                node.before_message(act, "any", object)
            else:
                act()

        node.before_message(then, self.way, self.kind, self.nth, fits)


def dies(node: BoxNode, moment: Moment, *, power: bool) -> None:
    """Starts all nodes, of which this one dies at a moment; `power`: its computer loses power."""
    moment.arrange(node, lambda: node.kill(power=power))
    node.box.start_all()
    node.box.run(until=lambda: node.is_over)


class _Sessions(Watcher):
    """The sessions of a node in their order: those that a message was part of."""

    def __init__(self, node: BoxNode) -> None:
        self._node = node
        self.sids: list[Sid] = []
        node.box.watchers.append(self)

    def saw(self, box: Box, node: BoxNode, way: str, message: Message) -> None:
        sid = _sid(message)
        if node is self._node and sid is not None and sid not in self.sids:
            self.sids.append(sid)


def _sid(message: Message) -> Sid | None:
    """Returns the session that a message is part of. A share may come before the GROUP that starts it."""
    match message:
        case Group():
            return signing.session_id(message)
        case Share() | Sum():
            return message.sid
        case _ if isinstance(message, MaskedMessage):
            return session_of(message)
        case _:
            return None
