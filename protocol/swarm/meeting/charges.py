"""What each key has charged to its privacy budget: members keep each other's counts, and give them back.

A node whose key was restored without its ledger would spend its budget again. So it tells the members what
its ledger has charged, in a CHARGED of its own signature, after the charge and before the offer leaves; they
keep the newest one. Each node that meets a peer, or a new start of it, reminds it by a REMINDER of what it
keeps. A node whose own signature shows more than its ledger has stops.

A node takes no share and no JOIN of a member that has not reminded it. No offer leaves before all of these
are here: so it leaves only if no honest member of the group keeps a higher count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from protocol.actions import Action, KeepCharged, LedgerBehind, Send
from protocol.errors import RemoteProtocolError
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire import signing
from protocol.wire.limits import MAX_CHARGES
from protocol.wire.messages import Announce, ChargeCount, Charged, Key, Reminder

MAX_KEYS = 1024
"""Of how many keys a node keeps the count; the one that changed longest ago goes first."""
T = TypeVar("T")


class Charges:
    """This node's own count of charges, and those of the others. Without a budget it does nothing."""

    def __init__(self, settings: Settings, state: NodeState, members: Members) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._reminded: dict[Key, bytes] = {}
        """The instance of each peer that this node has reminded."""
        self._reminders: dict[Key, None] = {}
        """Who has reminded this node."""

    def lacks(self, key: Key) -> bool:
        """Whether this peer must still remind this node before the two are in a session."""
        return bool(self._settings.task.budget) and key not in self._reminders

    # -- out ---------------------------------------------------------------------------------------

    def rose(self, count: ChargeCount, others: Iterable[Key]) -> list[Action]:
        """The ledger on disk has this count now: tell it to the live members, if it is higher.

        `others`: the other members of a session that is going on. Tell them also if they seem to be away: the
        offer goes to them next.
        """
        if not self._settings.task.budget or not count.exceeds(self._state.charged):
            return []
        self._state.charged = count
        own = self._own()
        return [Send(key, own) for key in dict.fromkeys((*self._members.live, *others))]

    def _own(self) -> tuple[Charged, ...]:
        """This node's own CHARGED; none before the first charge."""
        key, count = self._settings.key, self._state.charged
        if count == ChargeCount():
            return ()
        shown = ChargeCount(min(count.sampled, MAX_CHARGES), min(count.plain, MAX_CHARGES))
        return (signing.sign(Charged(key.public, self._settings.task.budget, shown), key),)

    def met(self, announce: Announce, asks: bool) -> list[Action]:
        """A peer is here, or `asks`: remind it, once for each start, and whenever it asks."""
        is_reminded = self._reminded.get(announce.key) == announce.instance
        if not self._settings.task.budget or (is_reminded and not asks):
            return []
        _put(self._reminded, announce.key, announce.instance)
        kept = self._state.counts.get(announce.key)
        reminder = Reminder(announce.instance, () if kept is None else (kept,))
        return [Send(announce.endpoint, (reminder, *self._own()))]

    def lost(self, key: Key) -> None:
        """This peer cannot be reached: a reminder may have been lost."""
        self._reminded.pop(key, None)

    # -- in ----------------------------------------------------------------------------------------

    def take(self, message: Charged | Reminder, by: Key | None) -> list[Action]:
        """Process a message that `by` brought. Raises RemoteProtocolError if it is invalid."""
        if by is None or by == self._settings.key.public:
            raise RemoteProtocolError("a count of charges on a link of nobody else")
        if isinstance(message, Charged):
            self._check(message, by)
            return self._keep(message)
        if message.instance != self._settings.instance:
            return []  # it is for an earlier start
        for charged in message.charged:
            self._check(charged, self._settings.key.public)
        _put(self._reminders, by, None)
        known = self._state.charged
        return [LedgerBehind(each.count, known) for each in message.charged if each.count.exceeds(known)]

    def _check(self, charged: Charged, key: Key) -> None:
        if charged.key != key:
            raise RemoteProtocolError("a CHARGED of a key that it is not about")
        if not self._settings.task.budget or charged.budget != self._settings.task.budget:
            raise RemoteProtocolError("a CHARGED for another budget")
        signing.verify(charged, key)

    def _keep(self, charged: Charged) -> list[Action]:
        """Keep a count, unless it lacks a charge of the one that is kept: then give that one back."""
        key, state = charged.key, self._state
        if key in state.banned or not state.allows(key, self._settings):
            raise RemoteProtocolError("a CHARGED of a key that may not take part")
        kept = state.counts.get(key)
        if kept is not None and kept.count.exceeds(charged.count):
            announce = self._members.get(key)
            return [] if announce is None else self.met(announce, asks=True)
        if charged == kept:
            return []
        state.counts.pop(key, None)
        state.counts[key] = charged
        oldest = next(iter(state.counts)) if len(state.counts) > MAX_KEYS else None
        state.counts.pop(oldest or b"", None)
        return [KeepCharged(charged, oldest)]


def _put(table: dict[Key, T], key: Key, value: T) -> None:
    """Sets the value of a key, in a table of at most MAX_KEYS, which forgets the oldest ones."""
    table.pop(key, None)
    table[key] = value
    if len(table) > MAX_KEYS:
        del table[next(iter(table))]
