"""Tells systemd that a service is ready or stopping: the needed part of sd_notify(3)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY = "READY=1"
STOPPING = "STOPPING=1"
_VARIABLE = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Sends `state` to the socket in NOTIFY_SOCKET; does nothing if there is none or nobody listens."""
    path = os.environ.get(_VARIABLE, "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path  # "@": Linux's abstract namespace
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.connect(address)
        end.sendall(state.encode())
