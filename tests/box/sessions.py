"""An exact message of a node's nth session, and what is to happen then: its death, for example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from protocol.wire import signing
from protocol.wire.masked_messages import MaskedMessage, session_of
from protocol.wire.messages import Group, Message, Share, Sid, Sum
from tests.box.box import Box, BoxNode, Watcher


@dataclass(frozen=True)
class SessionMoment:
    """Just before message `nth` of a kind is sent in a session, or as soon as it was sent (`after`)."""

    kind: type[Message]
    nth: int
    session: int
    after: bool = False


class Sessions(Watcher):
    """The sessions of a node in their order: those that a message was part of."""

    def __init__(self, node: BoxNode) -> None:
        self._node = node
        self._sids: list[Sid] = []
        node.box.watchers.append(self)

    def saw(self, box: Box, node: BoxNode, way: str, message: Message) -> None:
        sid = _sid(message)
        if node is self._node and sid is not None and sid not in self._sids:
            self._sids.append(sid)

    def at(self, moment: SessionMoment, act: Callable[[], None]) -> None:
        """Calls `act` at a moment."""
        last, box = moment.session - 1, self._node.box

        def fits(message: Message) -> bool:
            sid = _sid(message)
            return (self._sids.index(sid) if sid in self._sids else len(self._sids)) == last

        then = (lambda: box.at(0.0, act)) if moment.after else act
        self._node.before_message(then, "out", moment.kind, moment.nth, fits)


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
