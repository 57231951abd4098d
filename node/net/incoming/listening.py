"""Opens the socket that a node listens on, and checks that given host names resolve."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable

from node.system.addresses import PeerAddress, join_endpoint, split_endpoint
from node.system.errors import ConfigError, UserError, reason
from node.system.streams import BoundAddress

BACKLOG = 512
"""Connections that may wait for accept: 4 s in a flood (node.net.incoming.doors); a dial waits five."""
DEFAULT = "127.0.0.1:0"


def listen(endpoint: str) -> socket.socket:
    """Returns a listening socket.

    Raises UserError if the system refuses (a port in use), ConfigError if the host does not resolve.
    """
    host, port = split_endpoint(endpoint)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # A look-up of its own, because create_server does not keep the resolver's error type.
        socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise ConfigError(
            f"--listen {endpoint}: the host does not resolve ({reason(error)}); check the name, or give an "
            "address of this machine"
        ) from error
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else reason(error)
        raise UserError(f"--listen {endpoint}: {why}; {_advice(error)}") from error


def _advice(error: OSError) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return "give an address of this machine"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "ports below 1024 are for root: listen on a higher one"
    return "end what uses the port, or listen elsewhere (port 0 takes a free one)"


def listen_where_possible(peers: Iterable[PeerAddress], mine: bytes | None) -> socket.socket:
    """Listens on the --peers entry with this node's key, else the first bindable one, else any port.

    `mine` is this node's public key. Entries pinned to other keys are skipped.
    """
    entries = sorted(peers, key=lambda peer: peer.key != mine)
    for peer in entries:
        if peer.key is not None and peer.key != mine:
            continue
        try:
            return listen(peer.endpoint)
        except UserError:
            continue
    return listen(DEFAULT)


def endpoint_of(listener: BoundAddress, asked: str | None) -> str:
    """Returns the HOST:PORT to announce: the host of `asked`, if given, and the bound port."""
    host, port = listener.getsockname()[:2]
    if asked is not None:
        host = split_endpoint(asked)[0]
    return join_endpoint(host, port)


def check_names(option: str, endpoints: Iterable[str]) -> None:
    """Raises ConfigError, which names `option`, for a host that does not resolve."""
    for endpoint in endpoints:
        host, port = split_endpoint(endpoint)
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(
                f"{option} {endpoint}: the host {host} does not exist or cannot be looked up "
                f"({reason(error)}); check the name, or give an address"
            ) from error
