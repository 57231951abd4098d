"""Which members are here and since when others are missed, as the node of a folder shows while it runs.

While its members agree before they learn, that is the node in the folder of the agreement.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from node.observe.run_folder import RunFolder, has_run
from node.observe.views import NodeView, Peer, Presence
from node.storage.swarm_file import AGREEMENT
from protocol.swarm.inspection import Contact

_GONE: Mapping[str, str] = {Contact.LEFT: "has left", Contact.REFUSES: "refuses this node"}
_MINUTES_FROM_S = 120


def presence_texts(folder: Path) -> dict[str, str] | None:
    """Returns a text for each member that the node knows, by the first digits of its key.

    None: the node does not run now. Raises UserError for a damaged file.
    """
    view = _running(folder) or _running(folder / AGREEMENT)
    if view is None:
        return None
    now_s = time.time()
    return {peer.key: _text(peer, peer.presence, now_s) for peer in view.peers if peer.key and peer.presence}


def _running(folder: Path) -> NodeView | None:
    """Returns what the node of this folder shows; None if it does not run."""
    view = RunFolder(folder).read() if has_run(folder) else None
    return None if view is None or view.ended or view.silent_since is not None else view


def _text(peer: Peer, seen: Presence, now_s: float) -> str:
    if (gone := _GONE.get(peer.contact)) is not None:
        return f"{gone}: {peer.why}" if peer.why else gone
    if seen.relay:
        return f"here, by the relay {seen.relay}"
    if seen.since is None:
        return "not seen since this node started"
    return f"away for {_duration(now_s - seen.since)}: {seen.why}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _MINUTES_FROM_S else f"{seconds / 60:.0f} min"
