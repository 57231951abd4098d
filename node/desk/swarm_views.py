"""What the page shows of a swarm by invitation: seats, codes, members and words, from the run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from node.invitation.inviting import code_of
from node.invitation.kept import INVITING, JOINING, LATER, Inviting, joins_below, kept_inviting, kept_joining
from node.invitation.key import key_file
from node.observe.views import NodeView
from node.storage.key_file import read_key
from node.storage.plain import plain
from node.storage.swarm_file import SWARM, read_swarm
from node.storage.vouches import newcomers
from protocol.invitation.inviter import Seat
from protocol.invitation.messages import Standing
from protocol.invitation.roster import Member
from protocol.invitation.words import key_words
from protocol.wire.ids import Key

RUNS = Path("runs")
"""Where invite and join make the folders of runs."""
KEPT = (SWARM, INVITING, JOINING)
_DIGITS = 16


def standing_of(path: Path) -> str:
    """Returns how far the swarm in a folder is: "invites", "joins", "closed"; "" if nobody was invited."""
    if (path / SWARM).is_file():
        return "closed"
    if (path / INVITING).is_file():
        return "invites"
    return "joins" if (path / JOINING).is_file() else ""


def folder_of_room(folder: Path, room: str) -> str:
    """Returns the folder in which a code's room is joined; empty as long as there is none."""
    for path, state in joins_below(folder / RUNS):
        if state.place.room == room:
            return str(RUNS / path.name)
    return ""


def membership_view(path: Path, view: NodeView | None, now_s: float) -> dict[str, object]:
    """Returns the seats, as long as the list is open, or the members. Raises ConfigError for a damaged file.

    `view` is what the node shows, if it runs; `now_s` is in Unix seconds.
    """
    key = read_key(key_file(path))
    own = None if key is None else key.public
    standing = standing_of(path)
    inviting = kept_inviting({"invites": path, "closed": path / LATER}.get(standing, path))
    inviting = inviting if inviting is not None and not inviting.roster else None
    joining = kept_joining(path) if standing == "joins" else None
    return {
        "standing": standing,
        "words": "" if own is None else key_words(own),
        "seats": [] if inviting is None else [_seat(inviting, seat, now_s) for seat in inviting.seats],
        "waits": joining is not None and joining.place.standing is not Standing.OUTSIDE,
        "members": _members(path, own, view) if standing == "closed" else [],
    }


def _seat(state: Inviting, seat: Seat, now_s: float) -> dict[str, object]:
    place = (
        "here" if seat.is_taken else "burnt" if not seat.tries else "over" if seat.until <= now_s else "free"
    )
    return {
        "name": seat.name,
        "code": str(code_of(state, seat)) if place == "free" else "",
        "until": seat.until,
        "tries": seat.tries,
        "state": place,
        "words": key_words(seat.key) if seat.is_taken else "",
    }


def _members(path: Path, own: Key | None, view: NodeView | None) -> Sequence[dict[str, object]]:
    swarm = read_swarm(path)
    vouched = {each.key: swarm.names[each.member] for each in newcomers(path, swarm)}
    waiting = [Member(each.name, each.key) for each in newcomers(path, swarm)]
    contacts = {} if view is None else {peer.key: peer for peer in view.peers}
    found = []
    for member in sorted((*swarm.roster.everyone, *waiting), key=lambda each: each.name):
        peer = contacts.get(member.key.hex()[:_DIGITS])
        found.append(
            {
                "name": member.name,
                "words": key_words(member.key),
                "is_own": member.key == own,
                "invited": member.key == swarm.roster.inviter,
                "removed": member.key in swarm.removed,
                "vouched_by": vouched.get(member.key, ""),
                "contact": "" if peer is None else peer.contact,
                "presence": None if peer is None else plain(peer.presence),
                "why": "" if peer is None else peer.why,
            }
        )
    return found
