"""Endpoints as text: HOST:PORT in one canonical form, checked once, on input.

The codec accepts no other form from the network, and the command line converts what people write. So the
shell dials an endpoint that a machine holds unchanged, and it contains nothing but a host and a port. This
module does no I/O: it looks up no name.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from functools import lru_cache

from protocol.crypto.node_key import KEY_BYTES

MOST_CHARACTERS = 260
"""A host name has up to 253 characters, and its port 5."""
_LABEL = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MOST_NAME = 253
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
_MOST_PORT = 65535
_OF_KEY = ".alt:443"


@lru_cache(maxsize=1024)
def canonical(written: str, *, any_port: bool = False) -> str | None:
    """`written` in canonical form; None if it is no endpoint, or one that other machines cannot reach.

    The host is in lower case without a final dot, an IPv6 address is in brackets and in its shortest form,
    the port has no leading zero. Port 0, which lets the system choose one, is valid only with `any_port`.

    >>> canonical("Host.Example.:080"), canonical("[0:0::1]:9001")
    ('host.example:80', '[::1]:9001')
    >>> canonical("10.0.0.1:9001/admin/x?y=") is canonical("0.0.0.0:9001") is None
    True
    """
    host, colon, port = written.rpartition(":")
    if not written.isascii() or not colon or not _PORT.fullmatch(port):
        return None
    number, known = int(port), _canonical_host(host)
    is_port = int(not any_port) <= number <= _MOST_PORT
    return None if known is None or not is_port or is_wildcard(known.strip("[]")) else f"{known}:{number}"


def is_canonical(written: str) -> bool:
    """Whether `written` is an endpoint in canonical form, as messages must name it."""
    return len(written) <= MOST_CHARACTERS and canonical(written) == written


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """(host, port) of an endpoint in canonical form; an IPv6 host has no brackets."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def is_wildcard(host: str) -> bool:
    """Whether `host` (IPv6 without brackets) stands for every address of a machine (0.0.0.0 or ::)."""
    address = _address(host)
    return address is not None and address.is_unspecified


def is_loopback(endpoint: str) -> bool:
    """Whether only this machine can reach `endpoint`: 127.0.0.0/8, ::1 or localhost."""
    host, _ = split_endpoint(endpoint)
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def of_key(key: bytes) -> str:
    """The endpoint that stands for a key, whatever the way to it: its base32 (RFC 4648) under `.alt`.

    No DNS has names under `.alt` (RFC 9476).

    >>> of_key(bytes(32))
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.alt:443'
    """
    return f"{base64.b32encode(key).decode().lower().rstrip('=')}{_OF_KEY}"


def key_of(endpoint: str) -> bytes | None:
    """The key for which an endpoint stands; None if it is the address of a machine."""
    name = endpoint.removesuffix(_OF_KEY).upper()
    try:
        key = base64.b32decode(name + "=" * (-len(name) % 8))
    except binascii.Error:
        return None
    return key if len(key) == KEY_BYTES and of_key(key) == endpoint else None


def _canonical_host(written: str) -> str | None:
    """The host in lower case: an address, IPv6 in brackets, or a name; None if it is none of these."""
    if written.startswith("[") and written.endswith("]"):
        six = _address(written[1:-1])
        # Python releases differ in how they write an IPv4-mapped IPv6 address.
        fine = isinstance(six, ipaddress.IPv6Address) and six.ipv4_mapped is None
        return f"[{six}]" if fine else None
    host = written.lower().removesuffix(".")
    if _NUMERIC.fullmatch(host.rpartition(".")[2]):  # such a host must be an IPv4 address
        return host if isinstance(_address(host), ipaddress.IPv4Address) else None
    return host if len(host) <= _MOST_NAME and _NAME.fullmatch(host) else None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address; None if it is none or has a scope ("%eth0"), which other machines do not know."""
    try:
        return None if "%" in host else ipaddress.ip_address(host)
    except ValueError:
        return None
