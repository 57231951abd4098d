"""Nodes that appear to the network as separate machines: one namespace for each, and a wire between them.

    node 0 [10.77.0.1] --tun--------------------------+
    node 1 [10.77.0.2] --tun--------------------------+--> Wire: routes each packet; delays or drops it
    node 2 [10.3.0.2]  --tun-- Firewall [10.77.0.3] --+
    ...                                             --+

Every packet passes through this process. So the tests need only Linux with namespaces and TUN devices, and a
seed determines losses and delays. The namespaces have no other way out, and nothing outside changes.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import selectors
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.e2e.firewall import Exit, Firewall
from tests.patience import ENOUGH_S

PORT = 9001
_NAMESPACES = Path("/run/netns")
_PREFIX = "mm"
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_LONGEST_PACKET = 65_536
_LONGEST_QUEUE_S = 0.5
"""What waits longer before a slow line is lost."""
_names = itertools.count()

T = TypeVar("T")


class NotPossible(Exception):
    """This machine does not allow namespaces; the text says what is missing."""


@dataclass(frozen=True)
class Conditions:
    """What happens to packets on their way; between two nodes no packet overtakes another one."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True)
class Site:
    """How a node is connected.

    `exits`: where it may connect to from behind a firewall, through which nobody reaches it; None: there is
    no firewall. `bytes_per_s`: what its line carries from it, and what it carries to it; None: no limit.
    """

    exits: frozenset[Exit] | None = None
    bytes_per_s: float | None = None


OPEN = Site()
HTTPS_ONLY = Site(frozenset((Exit(443),)))


def exit_at(number: int, port: int) -> Exit:
    """Returns the way out to one port of one node, such as a proxy."""
    return Exit(port, _packed(address(number)))


def enter(namespace: str) -> None:
    """Moves this thread, and the threads that it starts, to a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (_NAMESPACES / namespace).open("rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"namespace {namespace} cannot be entered")


def within(namespace: str, look: Callable[[], T]) -> T:
    """Calls a function in that namespace; returns its result. Sockets that it makes stay there."""

    def there() -> T:
        enter(namespace)
        return look()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(there).result()


def _ip(*arguments: str) -> None:
    ended = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise NotPossible(f"ip {' '.join(arguments)}: {ended.stderr.strip()}")


def _remove_left() -> None:
    """Removes the namespaces that tests have left which were killed."""
    for path in _NAMESPACES.glob(f"{_PREFIX}*x*"):
        owner = path.name.removeprefix(_PREFIX).partition("x")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with suppress(NotPossible):
                _ip("netns", "delete", path.name)


def _tun(name: str) -> int:
    """Creates a TUN device, which exists as long as its descriptor is open."""
    try:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotPossible(f"/dev/net/tun: {error.strerror}") from None
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        os.close(descriptor)
        raise NotPossible(f"no TUN device can be made: {error.strerror}") from None
    return descriptor


class Wire:
    """A namespace for each site, which reach only each other."""

    def __init__(self, sites: Sequence[Site], seed: int, conditions: Conditions) -> None:
        """Raises NotPossible and leaves nothing behind if this machine does not allow it."""
        self.conditions = conditions
        self.lost = 0
        self._sites = sites
        self._firewalls = {
            number: Firewall(_packed(_inside(number)), _packed(address(number)), site.exits)
            for number, site in enumerate(sites)
            if site.exits is not None
        }
        self._down: frozenset[int] = frozenset()
        self._dropped: Counter[tuple[int, int]] = Counter()
        self._has_dropped = threading.Condition()
        self._random = random.Random(seed)
        self._devices: dict[int, int] = {}
        self.namespaces: list[str] = []
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        try:
            if shutil.which("ip") is None:
                raise NotPossible("there is no program 'ip'")
            _remove_left()
            for number in range(len(sites)):
                self._add(number)
        except BaseException:
            self._remove()
            raise
        self._thread.start()

    def _add(self, number: int) -> None:
        name = f"{_PREFIX}{os.getpid()}x{next(_names)}"  # a device's name has at most 15 characters
        _ip("netns", "add", name)
        self.namespaces.append(name)
        self._devices[number] = _tun(name)
        _ip("link", "set", name, "netns", name)
        own = _inside(number) if number in self._firewalls else address(number)
        _ip("-n", name, "address", "add", f"{own}/24", "dev", name)
        for device in ("lo", name):
            _ip("-n", name, "link", "set", device, "up")
        _ip("-n", name, "route", "add", "default", "dev", name)

    @property
    def endpoints(self) -> list[str]:
        """The addresses where the nodes listen."""
        return [f"{address(number)}:{PORT}" for number in range(len(self.namespaces))]

    @contextmanager
    def cut(self, number: int) -> Iterator[None]:
        """The line of a site carries nothing in the context."""
        self._down |= {number}
        try:
            yield
        finally:
            self._down -= {number}

    def wait_until_dropped(self, sender: int, receiver: int) -> None:
        """Waits until a firewall has dropped a packet between these two."""
        with self._has_dropped:
            was_dropped = self._has_dropped.wait_for(lambda: self._dropped[sender, receiver] > 0, ENOUGH_S)
        assert was_dropped, f"no firewall dropped anything from {sender} to {receiver}"

    def close(self) -> None:
        """Removes the wire and its namespaces."""
        os.write(self._stop_write, b"x")
        self._thread.join()
        self._remove()

    def _remove(self) -> None:
        for descriptor in (*self._devices.values(), self._stop_read, self._stop_write):
            os.close(descriptor)
        for name in self.namespaces:
            with suppress(NotPossible):
                _ip("netns", "delete", name)

    # -- packets -----------------------------------------------------------------------------------

    def _carry(self) -> None:
        late: list[tuple[float, int, int, bytes]] = []
        last: dict[tuple[int, int], float] = {}
        free: dict[tuple[int, bool], float] = {}
        order = itertools.count()
        with selectors.DefaultSelector() as selector:
            for number, descriptor in self._devices.items():
                selector.register(descriptor, selectors.EVENT_READ, number)
            selector.register(self._stop_read, selectors.EVENT_READ, None)
            while True:
                wait_s = max(0.0, late[0][0] - time.monotonic()) if late else None
                for key, _ in selector.select(wait_s):
                    if key.data is None:
                        return
                    for receiver, packet in self._sent_by(key.data):
                        at = self._arrival(key.data, receiver, len(packet), free)
                        if at is not None:
                            at = last[key.data, receiver] = max(at, last.get((key.data, receiver), 0.0))
                            heapq.heappush(late, (at, next(order), receiver, packet))
                while late and late[0][0] <= time.monotonic():
                    _, _, number, packet = heapq.heappop(late)
                    with suppress(OSError):  # the device is full: one more that is lost
                        os.write(self._devices[number], packet)

    def _sent_by(self, sender: int) -> Iterator[tuple[int, bytes]]:
        """Yields what a device has to send, as its receiver gets it, and the receiver's number."""
        with suppress(BlockingIOError):
            while packet := os.read(self._devices[sender], _LONGEST_PACKET):
                receiver = _receiver(packet)
                if receiver not in self._devices:
                    continue
                passed = self._filtered(sender, receiver, packet)
                if passed is None:
                    with self._has_dropped:
                        self._dropped[sender, receiver] += 1
                        self._has_dropped.notify_all()
                elif not {sender, receiver} & self._down and self._passes():
                    yield receiver, passed

    def _filtered(self, sender: int, receiver: int, packet: bytes) -> bytes | None:
        """Returns the packet behind the firewalls of both ends; None if one of them drops it."""
        passed: bytes | None = packet
        if sender in self._firewalls:
            passed = self._firewalls[sender].out(packet)
        if receiver in self._firewalls and passed is not None:
            passed = self._firewalls[receiver].into(passed)
        return passed

    def _arrival(
        self, sender: int, receiver: int, count: int, free: dict[tuple[int, bool], float]
    ) -> float | None:
        """Returns when so many bytes arrive; None if the queue before a slow line is full.

        `free`: from when on the line of a site carries the next packet, out (True) and in (False).
        """
        at = time.monotonic()
        for number, is_out in ((sender, True), (receiver, False)):
            rate = self._sites[number].bytes_per_s
            if rate is not None:
                begins = max(at, free.get((number, is_out), 0.0))
                if begins - at > _LONGEST_QUEUE_S:
                    self.lost += 1
                    return None
                at = free[number, is_out] = begins + count / rate
        told = self.conditions
        return at + told.delay_s + self._random.uniform(0, told.jitter_s)

    def _passes(self) -> bool:
        is_lost = self._random.random() < self.conditions.loss
        self.lost += is_lost
        return not is_lost


def address(number: int) -> str:
    """Returns the address by which others know a node."""
    return f"10.77.0.{number + 1}"


def _inside(number: int) -> str:
    """Returns the address that a node behind a firewall has itself."""
    return f"10.{number + 1}.0.2"


def _packed(written: str) -> bytes:
    return socket.inet_aton(written)


def _receiver(packet: bytes) -> int:
    """Returns the number of the node that an IPv4 packet goes to; -1 for any other packet."""
    to_us = packet[0] >> 4 == 4 and packet[16:19] == bytes([10, 77, 0])
    return packet[19] - 1 if to_us else -1
