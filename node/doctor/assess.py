"""What the answers of a peer mean: pure functions from answers and times to findings."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping

from aiohttp import (
    ClientConnectorDNSError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientSSLError,
    WSServerHandshakeError,
)
from cryptography import x509

from node.doctor.finding import Column, Finding
from node.doctor.reach import milliseconds
from node.doctor.requests import Answer
from node.net.incoming.doors import BODY_LEAST_BYTES_PER_S
from node.net.tls import WrongPeer, vouched_for
from node.runtime.slow_upload import sent_bytes, slow_upload_text
from node.system.errors import one_line, shown
from node.task.sections import AggregationSection
from protocol.swarm.meeting.clock_skew import TOLERANCE_S

SLOW_BYTES_PER_S = 8 * BODY_LEAST_BYTES_PER_S
"""Below this rounds take long; a node gives up bodies that are slower than an eighth of it."""
SLOW_ROUND_TRIP_S = 1.0
_LONG_S = 1.0
"""A part of a sum that takes less holds nobody up, however slow the line is."""
_USUAL = AggregationSection()
_WORDS = 60
_SERVER = "aiohttp"
"""What the Server header of every node contains."""


def is_healthy(answer: Answer) -> bool:
    """Returns whether this is a node's answer to /healthz."""
    return answer.said.get("status") == "ok"


def between(headers: Mapping[str, str]) -> str:
    """Returns the HTTP proxy that answers, as it names itself in the headers; "" if none does."""
    via = headers.get("Via", "")
    server = headers.get("Server", "")
    named = via or ("" if _SERVER in server or not server else server)
    return one_line(named)[:_WORDS]


def state(health: Answer, ready: Answer) -> Finding:
    """Says whether the far end is ready for a round. A node that only waits for others is fine."""
    why = ready.said.get("why")
    waits = health.said.get("waiting")
    said = [*(why if isinstance(why, list) else []), *([waits] if waits else [])]
    if ready.said.get("ready") is True and not waits:
        return Finding("state", "ready")
    text = "; ".join(shown(each).strip("'\"") for each in said[:2]) or "it does not say why"
    return Finding("state", "waits", "ok", f"it waits ({text})")


def clock(ahead_s: float | None) -> Finding:
    """Shows how far a clock is ahead; `node.doctor.table` compares the clocks and says which one is wrong."""
    if ahead_s is None:
        return Finding("clock", "unknown")
    return Finding("clock", "agrees" if abs(ahead_s) < TOLERANCE_S else f"{ahead_s:+.0f} s")


def round_trip(seconds: float) -> Finding:
    """Shows a round trip, and warns of one that slows down every step of a round."""
    if seconds < SLOW_ROUND_TRIP_S:
        return Finding("round trip", milliseconds(seconds))
    advice = (
        "a question and its answer take long: each round takes dozens of them; is the machine overloaded?"
    )
    return Finding("round trip", milliseconds(seconds), "warning", advice)


def throughput(bytes_per_s: float | None, parameters: int, members: int) -> Finding:
    """Shows the throughput of a peer's upload, and warns if its part of a sum takes long, or too long.

    `parameters`: those of the model. `members`: how many peers sum, with this machine's.
    """
    if bytes_per_s is None:
        return Finding("throughput", "not measured")
    return _sends("throughput", "its", bytes_per_s, parameters, members)


def upload(bytes_per_s: float, parameters: int, members: int) -> Finding:
    """The same for this machine's own upload."""
    return _sends("upload", "your", bytes_per_s, parameters, members)


def _sends(column: Column, whose: str, bytes_per_s: float, parameters: int, members: int) -> Finding:
    cell = f">= {_rate(bytes_per_s)}"
    takes_s = sent_bytes(_USUAL, parameters, members) / bytes_per_s
    if bytes_per_s >= SLOW_BYTES_PER_S or takes_s < _LONG_S:
        return Finding(column, cell)
    takes = f"{whose} part of a sum of {parameters:,} parameters takes {takes_s:.0f} s: take a smaller model"
    advice = slow_upload_text(_USUAL, parameters, members, bytes_per_s, whose) or takes
    return Finding(column, cell, "warning", advice)


def subject(certificate: bytes) -> str:
    """Returns whom a certificate (DER) names."""
    try:
        name = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError:
        return "unreadable"
    return one_line(name)[:_WORDS] or "without a name"


def tls_to_relay(certificate: bytes) -> Finding:
    """Says whether TLS (certificate in DER) ends at the relay, or at a proxy that intercepts it."""
    try:
        vouched_for(certificate)
    except WrongPeer:
        advice = (
            f"TLS ends before the relay, at a program with the certificate {subject(certificate)}: it sees "
            "what the relay sees, who talks to whom and how much, and no more"
        )
        return Finding("TLS", "intercepted", advice=advice)
    return Finding("TLS", "1.3")


def no_way(error: BaseException | None) -> tuple[Column, str]:
    """Returns the step to a relay at which a websocket failed to open with this error, and its cell."""
    match error:
        case ClientHttpProxyError(status=407):
            return "proxy", "password"
        case ClientHttpProxyError(status=status):
            return "proxy", f"status {status}"
        case ClientProxyConnectionError():
            return "proxy", "no answer"
        case ClientConnectorDNSError():
            return "name", "unknown"
        case WSServerHandshakeError(status=status):
            return "websocket", f"status {status}"
        case ClientSSLError() | ssl.SSLError():
            return "TLS", "fails"
        case ValueError():
            return "proxy", "no address"
        case _:
            cause = getattr(error, "os_error", None) or error
            if isinstance(cause, socket.gaierror):
                return "name", "unknown"
            number = getattr(cause, "errno", None)
            return "port", "refused" if number == errno.ECONNREFUSED else "no answer"


def presence(why_away: str | None) -> Finding:
    """Says whether a member is at a relay that leads there from here. `why_away`: None if one does."""
    if why_away is None:
        return Finding("here", "yes")
    advice = f"away: {why_away}; look whether it runs, and run its doctor there"
    return Finding("here", "away", "warning", advice)


def _rate(bytes_per_s: float) -> str:
    if bytes_per_s >= 1e6:
        return f"{bytes_per_s / 1e6:.{0 if bytes_per_s >= 1e7 else 1}f} MB/s"
    return f"{bytes_per_s / 1e3:.0f} kB/s"
