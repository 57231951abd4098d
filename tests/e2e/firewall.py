"""What stands between a site and the network: a firewall that translates addresses, as routers of sites do.

It lets out what the site opens by TCP to its exits, under the site's outer address, and lets in nothing but
the answers. All else is dropped without a word. A packet is IPv4 (RFC 791) with TCP (RFC 9293) in it.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from dataclasses import dataclass

_TCP = 6
_SHORTEST_HEAD = 20
_SENDER, _RECEIVER = slice(12, 16), slice(16, 20)
_IP_SUM, _TCP_SUM = 10, 16
"""Where the checksums stand: in the head of IP, in that of TCP."""


@dataclass(frozen=True)
class Exit:
    """Where a site may connect to. `port`: of TCP; `address`: 4 bytes, None for any."""

    port: int
    address: bytes | None = None


@dataclass(frozen=True)
class _Ends:
    """A connection as the site sees it: its own port, the far address and the far port."""

    mine: int
    far: bytes
    port: int


class Firewall:
    """The firewall of one site with one machine."""

    def __init__(self, inner: bytes, outer: bytes, exits: Container[Exit]) -> None:
        """`inner`: the machine's address; `outer`: the one by which others know it (4 bytes each)."""
        self._inner, self._outer = inner, outer
        self._exits = exits
        self._open: set[_Ends] = set()

    def out(self, packet: bytes) -> bytes | None:
        """Returns what leaves the site; None for a packet that is dropped."""
        ports = _ports(packet)
        if ports is None:
            return None
        far = packet[_RECEIVER]
        if Exit(ports[1]) not in self._exits and Exit(ports[1], far) not in self._exits:
            return None
        self._open.add(_Ends(ports[0], far, ports[1]))
        return translated(packet, _SENDER, self._outer)

    def into(self, packet: bytes) -> bytes | None:
        """Returns what reaches the machine in the site; None for a packet that is dropped."""
        ports = _ports(packet)
        if ports is None or _Ends(ports[1], packet[_SENDER], ports[0]) not in self._open:
            return None
        return translated(packet, _RECEIVER, self._inner)


def translated(packet: bytes, where: slice, address: bytes) -> bytes:
    """Returns a TCP packet with another address and the checksums that belong to it (RFC 1624)."""
    changed = bytearray(packet)
    for place in (_IP_SUM, _head_bytes(packet) + _TCP_SUM):
        (before,) = struct.unpack_from(">H", packet, place)
        struct.pack_into(">H", changed, place, _checksum(before, packet[where], address))
    changed[where] = address
    return bytes(changed)


def _checksum(before: int, old: bytes, new: bytes) -> int:
    """Returns a checksum after four bytes that it covers have changed."""
    total = ~before & 0xFFFF
    total += sum(~word & 0xFFFF for word in struct.unpack(">2H", old)) + sum(struct.unpack(">2H", new))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _ports(packet: bytes) -> tuple[int, int] | None:
    """Returns the sender's and the receiver's port; None if this is no first or only fragment of TCP."""
    head = _head_bytes(packet)
    if packet[9] != _TCP or packet[6] & 0x1F or packet[7] or len(packet) < head + _SHORTEST_HEAD:
        return None
    sender, receiver = struct.unpack_from(">HH", packet, head)
    return sender, receiver


def _head_bytes(packet: bytes) -> int:
    return 4 * (packet[0] & 0x0F)
