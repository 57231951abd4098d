"""Tells systemd that a service is up, or on its way down: what is needed of sd_notify(3)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY = "READY=1"
STOPPING = "STOPPING=1"
_VARIABLE = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Send `state` to the socket that the supervisor named; nothing without one, or where nobody listens."""
    path = os.environ.get(_VARIABLE, "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path  # "@": Linux's abstract namespace
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.connect(address)
        end.sendall(state.encode())
