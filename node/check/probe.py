"""Requests for the public status of running nodes and trackers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from node.net.date_header import ahead_s
from node.net.tls import Dialling, WrongPeer, not_met
from node.system.addresses import split_endpoint
from node.system.errors import reason

PATIENCE_S = 3.0
"""Time limit for the connection, and again for the whole answer."""
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Meeting:
    """An answer: the peer's task and key in hex, if stated, and how many seconds its clock is ahead.

    The clock is read from the Date header of the answer, to a second.
    """

    task: str | None
    key: str | None
    ahead_s: float | None


def meet_all(endpoints: Sequence[str], tls: Dialling) -> list[Meeting | str | WrongPeer]:
    """Asks all endpoints in parallel, so that a silent one delays nobody; answers in the same order."""

    def met(endpoint: str) -> Meeting | str | WrongPeer:
        try:
            return meet(endpoint, tls)
        except WrongPeer as error:
            return error

    with ThreadPoolExecutor(max(1, len(endpoints))) as pool:
        return list(pool.map(met, endpoints))


def meet(endpoint: str, tls: Dialling) -> Meeting | str:
    """Asks "host:port" for its status; returns a sentence with advice if it does not answer.

    It uses TLS where a node would; raises WrongPeer if the answering peer is not an allowed one.
    """
    host, port = split_endpoint(endpoint)
    context = tls.dialling(endpoint)
    with closing(http.client.HTTPConnection(host, port, timeout=PATIENCE_S)) as connection:
        try:
            connection.connect()
        except OSError as error:
            return (
                f"nobody answers ({reason(error)}); start it, or look at address and firewall (fine for a "
                "peer that is not started yet)"
            )
        # A socket's time limit applies to each read: a peer that sends single bytes could delay without end.
        end = threading.Timer(PATIENCE_S, connection.sock.shutdown, (socket.SHUT_RDWR,))
        end.start()
        try:
            if context is not None:
                link = context.wrap_socket(connection.sock)
                connection.sock = link
                tls.check(endpoint, link)  # before any request
            connection.request("GET", "/v1/status")
            answer = connection.getresponse()
            body, date = answer.read(_MOST_BYTES), answer.headers["Date"]
        except WrongPeer:
            raise
        except (OSError, http.client.HTTPException):
            return f"{not_met(under_tls=context is not None)}, unless it is another program"
        finally:
            end.cancel()
    return Meeting(_said(body, "task"), _said(body, "key"), ahead_s(date))


def _said(body: bytes, name: str) -> str | None:
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        return None
    value = status.get(name) if isinstance(status, dict) else None
    return value if isinstance(value, str) else None
