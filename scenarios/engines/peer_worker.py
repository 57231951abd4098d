"""A whole node in a child process: the parent names it and never imports it, or torch."""

from __future__ import annotations

import socket

from node.app import run
from node.options import NodeOptions


def run_node(options: NodeOptions, listener: socket.socket) -> int:
    """A whole node on an already listening socket; its exit status."""
    return run(options, listener=listener)
