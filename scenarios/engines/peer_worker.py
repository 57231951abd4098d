"""A whole node in a child process. The parent imports neither this module nor torch."""

from __future__ import annotations

import socket

from node.app import run
from node.options import NodeOptions


def run_node(options: NodeOptions, listener: socket.socket) -> int:
    """Run a whole node on a listening socket; return its exit status."""
    return run(options, listener=listener)
