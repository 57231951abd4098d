"""Network addresses as users write them: HOST:PORT, KEY@HOST:PORT, and which are this machine's."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from node.errors import ConfigError, shown

_LABEL = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?")
_KEY = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class PeerAddress:
    """Where a peer is reached, and the Ed25519 public key it must show, if one is pinned.

    `endpoint` is "host:port" (IPv6 in brackets), `key` 32 bytes.
    """

    endpoint: str
    key: bytes | None


def parse_endpoint(written: str, option: str, *, any_port: bool = False) -> str:
    """`written` as "host:port", host in lower case; ConfigError names `option` if it is none.

    Port 0, which lets the system choose one, is allowed only with `any_port`.
    """
    host, colon, port = written.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    fine = bool(colon) and (_is_host(bare) if bare == host else _is_ip(bare, 6))
    if not fine or not re.fullmatch(r"[0-9]{1,5}", port) or not int(not any_port) <= int(port) <= 65535:
        ports = f"PORT from {int(not any_port)} to 65535, an IPv6 address in brackets"
        raise ConfigError(f"{option} {shown(written)} is refused; allowed: HOST:PORT ({ports})")
    if is_wildcard(bare):
        raise ConfigError(
            f"{option} {shown(written)} is refused: other machines can not reach {bare}; "
            "give the address by which they reach this one"
        )
    return f"{host.lower()}:{int(port)}"


def parse_peer(written: str, option: str) -> PeerAddress:
    """HOST:PORT or KEY@HOST:PORT, KEY being 64 hex digits; raises ConfigError."""
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
    """The 32 bytes of a public key written as 64 hex digits; None if it is not one."""
    return bytes.fromhex(written) if _KEY.fullmatch(written) else None


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host (IPv6 without brackets) and port of an endpoint made by `parse_endpoint`."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(endpoint: str) -> bool:
    """Whether `endpoint` can only be this machine: 127.0.0.0/8, ::1 or localhost."""
    host, _ = split_endpoint(endpoint)
    if host == "localhost":
        return True
    return (_is_ip(host, 4) or _is_ip(host, 6)) and ipaddress.ip_address(host).is_loopback


def is_wildcard(host: str) -> bool:
    """Whether `host` means every address of this machine (0.0.0.0 or ::)."""
    return (_is_ip(host, 4) or _is_ip(host, 6)) and ipaddress.ip_address(host).is_unspecified


def _is_host(host: str) -> bool:
    """An IPv4 address or a name; a name whose last label is a number is neither."""
    numeric = host.rstrip(".").rpartition(".")[2].isdigit()
    return _is_ip(host, 4) if numeric else _NAME.fullmatch(host) is not None


def _is_ip(host: str, version: int) -> bool:
    """Whether `host` is an address of IP `version`; scoped ones ("%eth0") mean nothing elsewhere."""
    try:
        return "%" not in host and ipaddress.ip_address(host).version == version
    except ValueError:
        return False
