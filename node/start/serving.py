"""Learning while an inviter's rooms are served: a member that was away gets the closed list later.

The rooms have a thread and an event loop of their own, as the node's loop begins and ends with each agreement
and each run. Both write different files.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from node.invitation.inviting import Reception
from node.invitation.kept import kept_inviting
from node.invitation.key import own_key
from node.invitation.rooms import opened_rooms
from node.invitation.words import lost_text
from node.start.learn import learn
from node.system.errors import UserError
from protocol.invitation.inviter import News, Seat
from protocol.invitation.words import Code


class _Owner:
    """Whose node runs already: it shows who is here."""

    def news(self, seat: Seat, news: News) -> None:
        """See Watcher."""

    def trouble(self, text: str) -> None:
        """See Watcher."""

    def lost(self, name: str, code: Code | None) -> None:
        """Prints that a member cannot be told the list any more."""
        print(f"warning: {lost_text(name, code)}", flush=True)


def learn_and_serve(folder: Path, more: Sequence[str] = ()) -> int:
    """Learns as `learn` does, and serves the rooms of the folder's invitation meanwhile, if it has one."""
    state = kept_inviting(folder)
    if state is None:
        return learn(folder, more)
    reception = Reception(folder, own_key(folder), state, _Owner())
    if reception.is_over:
        return learn(folder, more)
    names = " and ".join(seat.name for seat in reception.waited_for)
    print(f"the list is not confirmed yet by {names}", flush=True)
    with _served(folder, reception):
        return learn(folder, more)


@contextmanager
def _served(folder: Path, reception: Reception) -> Iterator[None]:
    """Serves in a thread until the end of the context, or until everybody has answered."""
    relay, key = reception.state.relay, own_key(folder)
    loop, stopped = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        serving = asyncio.create_task(reception.serve(partial(opened_rooms, relay.endpoint, relay.key, key)))
        ending = asyncio.create_task(stopped.wait())
        await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        ending.cancel()
        error, _ = await asyncio.gather(serving, ending, return_exceptions=True)
        if isinstance(error, UserError):
            print(f"warning: {error}", flush=True)
        await loop.shutdown_default_executor()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="rooms of an invitation")
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()
