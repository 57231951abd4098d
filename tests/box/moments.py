"""The moment at which something happens to a node: an exact message of a round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from protocol.wire.messages import Message
from tests.box.box import BoxNode


@dataclass(frozen=True)
class Moment:
    """Message `nth` of a kind in a round.

    Before it is sent or handled, so that it has no effect; `after`: at the next message of any kind, so that
    this one was sent or took effect.
    """

    kind: type[Message]
    nth: int = 1
    way: str = "out"
    after: bool = False
    round: int = 2

    def arrange(self, node: BoxNode, act: Callable[[], None]) -> None:
        """Calls `act` at this moment of the node."""

        def then() -> None:
            if self.after:
                node.before_message(act, "any", object)
            else:
                act()

        node.before_message(
            then, self.way, self.kind, self.nth, lambda _: len(node.records) == self.round - 1
        )
