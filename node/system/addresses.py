"""Network addresses as users write them: HOST:PORT and KEY@HOST:PORT; which of them are this machine's."""

from __future__ import annotations

import re
from dataclasses import dataclass

from node.system.errors import ConfigError, shown
from protocol.wire.endpoints import canonical, is_wildcard
from protocol.wire.endpoints import is_loopback as is_loopback  # noqa: PLC0414 - addresses include it
from protocol.wire.endpoints import split_endpoint as split_endpoint  # noqa: PLC0414

_KEY = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class PeerAddress:
    """The address of a peer, and the Ed25519 public key that it must show, if one is pinned.

    `endpoint` is "host:port" (IPv6 in brackets), `key` 32 bytes.
    """

    endpoint: str
    key: bytes | None


def join_endpoint(host: str, port: int) -> str:
    """Returns HOST:PORT, as `split_endpoint` takes it apart: an IPv6 host gets its brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_endpoint(written: str, option: str, *, any_port: bool = False) -> str:
    """Returns `written` in the form of protocol.wire.endpoints.

    Port 0, which lets the system choose a port, is allowed only with `any_port`. Raises ConfigError, which
    names `option`, if `written` is no address.
    """
    known = canonical(written, any_port=any_port)
    if known is not None:
        return known
    host = written.rpartition(":")[0].strip("[]")
    if is_wildcard(host):
        raise ConfigError(
            f"{option} {shown(written)} is refused: other machines cannot reach {host}; "
            "give the address by which they reach this one"
        )
    ports = f"PORT from {int(not any_port)} to 65535, an IPv6 address in brackets"
    raise ConfigError(f"{option} {shown(written)} is refused; allowed: HOST:PORT ({ports})")


def any_endpoint(written: str, option: str) -> str:
    """Parses an address to listen on, of any port, as `parse_endpoint` does."""
    return parse_endpoint(written, option, any_port=True)


def loopback_endpoint(written: str, option: str) -> str:
    """Parses the address of a page that is for this machine alone, of any port. Raises ConfigError."""
    endpoint = any_endpoint(written, option)
    if not is_loopback(endpoint):
        raise ConfigError(
            f"{option} {shown(written)} is refused: the page is for this machine alone; allowed: an address "
            "such as 127.0.0.1:8080; others reach it through a tunnel (ssh -L), or get a file from report"
        )
    return endpoint


def wide_endpoint(written: str, option: str) -> str:
    """Parses an address to listen on as `any_endpoint` does; also 0.0.0.0 and [::], all of this machine's."""
    host, colon, port = written.rpartition(":")
    if not colon or not is_wildcard(host.strip("[]")):
        return any_endpoint(written, option)
    _, number = split_endpoint(any_endpoint(f"127.0.0.1:{port}", option))
    return join_endpoint("::" if ":" in host else "0.0.0.0", number)  # noqa: S104 - as it was typed


def announced_endpoint(written: str, option: str) -> str:
    """Parses HOST or HOST:PORT, by which other machines reach this one. A missing port becomes port 0."""
    is_host_alone = ":" not in written or written.endswith("]")
    return parse_endpoint(f"{written}:0" if is_host_alone else written, option, any_port=is_host_alone)


def parse_peer(written: str, option: str) -> PeerAddress:
    """Parses HOST:PORT or KEY@HOST:PORT, KEY being 64 hex digits. Raises ConfigError for anything else."""
    key, at, endpoint = written.rpartition("@")
    if not at:
        return PeerAddress(parse_endpoint(endpoint, option), None)
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"{option}: the pinned key {shown(key)} is refused; allowed: KEY@HOST:PORT, KEY being the 64 "
            "hex digits of the peer's public key"
        )
    return PeerAddress(parse_endpoint(endpoint, option), bytes.fromhex(key))


def parse_key(written: str) -> bytes | None:
    """Returns the 32 bytes of a key written as 64 hex digits; None for anything else."""
    return bytes.fromhex(written) if _KEY.fullmatch(written) else None
