"""The first two steps to a peer: its name resolves, and a connection opens."""

from __future__ import annotations

import asyncio
import errno
import socket
import urllib.request
from collections.abc import Sequence

from node.doctor.finding import Finding
from node.net.incoming.listening import listen
from node.net.outgoing.dialling import CONNECT_CAP_S
from node.system.addresses import is_loopback, join_endpoint, split_endpoint
from node.system.errors import UserError, reason

Address = tuple[str, int]
"""A numeric address and a port."""
_ADVICE = {
    errno.ECONNREFUSED: "nobody listens on this port: start the node there, or correct the port",
    errno.ETIMEDOUT: "no answer: open the port in the firewalls on the way, or correct the address",
    errno.EHOSTUNREACH: "no way leads to this address: correct it, or look at the network and its firewalls",
    errno.ENETUNREACH: "no way leads to this address: correct it, or look at the network and its firewalls",
}


async def look_up(endpoint: str) -> tuple[list[Address], Finding]:
    """Returns the addresses of the host, none if there is none."""
    host, port = split_endpoint(endpoint)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with asyncio.timeout(CONNECT_CAP_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        why = "no name server answers" if isinstance(error, TimeoutError) else reason(error)
        advice = f"the name does not resolve ({why}): correct it, ask who runs it, or give an address"
        return [], Finding("name", "unknown", "problem", advice)
    addresses = list(dict.fromkeys((str(each[4][0]), port) for each in found))
    shown = addresses[0][0] if len(addresses) == 1 else f"{len(addresses)} addresses"
    if not is_loopback(endpoint) and all(is_loopback(join_endpoint(*address)) for address in addresses):
        advice = (
            f"the name stands for this machine alone ({addresses[0][0]}; look at /etc/hosts): others reach "
            "it only by a name that stands for an address of the network"
        )
        return addresses, Finding("name", shown, "warning", advice)
    took_s = loop.time() - begun
    return addresses, Finding("name", "an address" if addresses[0][0] == host else f"{milliseconds(took_s)}")


async def reach(endpoint: str, addresses: Sequence[Address]) -> tuple[Address | None, Finding]:
    """Returns the first address at which a connection opens; None if none does."""
    loop = asyncio.get_running_loop()
    failed: list[OSError] = []
    for address in addresses:
        begun = loop.time()
        try:
            async with asyncio.timeout(CONNECT_CAP_S):
                _, writer = await asyncio.open_connection(*address)
        except OSError as error:  # TimeoutError is one
            failed.append(error)
            continue
        took_s = loop.time() - begun
        writer.transport.abort()
        if not failed:
            return address, Finding("port", milliseconds(took_s))
        text = f"{len(failed)} of the name's {len(addresses)} addresses cannot be reached: correct the name"
        return address, Finding("port", milliseconds(took_s), "warning", text)
    return None, _closed(endpoint, failed[0])


def milliseconds(seconds: float) -> str:
    """Returns a time for the table, such as "0.4 ms" or "12 ms"."""
    return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"


def _closed(endpoint: str, error: OSError) -> Finding:
    number = errno.ETIMEDOUT if isinstance(error, TimeoutError) else error.errno
    cell = {errno.ECONNREFUSED: "refused", errno.ETIMEDOUT: "no answer"}.get(number or 0, "unreachable")
    if _is_mine(endpoint):
        advice = "nobody listens here on this machine yet: fine for this machine's own node, else start it"
        return Finding("port", cell, "warning" if cell == "refused" else "problem", advice)
    advice = _ADVICE.get(number or 0, f"no connection ({reason(error)}): look at address and network")
    return Finding("port", cell, "problem", advice + _proxy_advice(endpoint))


def _is_mine(endpoint: str) -> bool:
    """Returns whether this machine could listen at an address that is not loopback."""
    if is_loopback(endpoint):
        return False  # every loopback address is this machine's, so that says nothing
    try:
        listen(endpoint).close()
    except UserError:
        return False
    return True


def _proxy_advice(endpoint: str) -> str:
    """Says that a proxy in the environment does not help; names the variable, never its value."""
    host, _ = split_endpoint(endpoint)
    proxies = urllib.request.getproxies_environment()
    named = [f"{scheme.upper()}_PROXY" for scheme in ("https", "http", "all") if scheme in proxies]
    if not named or urllib.request.proxy_bypass(host):
        return ""
    return (
        f"; {named[0]} is set here, but nodes connect directly and use no proxy: ask for a direct way to "
        f"{endpoint}"
    )
