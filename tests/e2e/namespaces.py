"""Nodes that appear to the network as separate machines: one namespace for each, and a wire between them.

    node 0 [10.77.0.1] --tun--+
    node 1 [10.77.0.2] --tun--+--> Wire: routes each packet; delays or drops it
    ...                     --+

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
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PORT = 9001
_NAMESPACES = Path("/run/netns")
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_LONGEST_PACKET = 65_536
_names = itertools.count()


class NotPossible(Exception):
    """This machine does not allow namespaces; the text says what is missing."""


@dataclass(frozen=True)
class Conditions:
    """What happens to packets on their way; between two nodes no packet overtakes another one."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0


def enter(namespace: str) -> None:
    """Moves this thread, and the threads that it starts, to a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (_NAMESPACES / namespace).open("rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"namespace {namespace} cannot be entered")


def _ip(*arguments: str) -> None:
    ended = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise NotPossible(f"ip {' '.join(arguments)}: {ended.stderr.strip()}")


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
    """`count` namespaces that reach only each other."""

    def __init__(self, count: int, seed: int, conditions: Conditions) -> None:
        """Raises NotPossible and leaves nothing behind if this machine does not allow it."""
        self.conditions = conditions
        self.lost = 0
        self._random = random.Random(seed)
        self._devices: dict[int, int] = {}
        self.namespaces: list[str] = []
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        try:
            if shutil.which("ip") is None:
                raise NotPossible("there is no program 'ip'")
            for number in range(count):
                self._add(number)
        except NotPossible:
            self._remove()
            raise
        self._thread.start()

    def _add(self, number: int) -> None:
        name = f"mm{os.getpid()}x{next(_names)}"  # a device's name has at most 15 characters
        _ip("netns", "add", name)
        self.namespaces.append(name)
        self._devices[number] = _tun(name)
        _ip("link", "set", name, "netns", name)
        _ip("-n", name, "address", "add", f"{_address(number)}/24", "dev", name)
        for device in ("lo", name):
            _ip("-n", name, "link", "set", device, "up")

    @property
    def endpoints(self) -> list[str]:
        """The addresses where the nodes listen."""
        return [f"{_address(number)}:{PORT}" for number in range(len(self.namespaces))]

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
                    self._take(key.data, late, last, order)
                while late and late[0][0] <= time.monotonic():
                    _, _, number, packet = heapq.heappop(late)
                    with suppress(OSError):  # the device is full: one more that is lost
                        os.write(self._devices[number], packet)

    def _take(
        self,
        sender: int,
        late: list[tuple[float, int, int, bytes]],
        last: dict[tuple[int, int], float],
        order: Iterator[int],
    ) -> None:
        """Reads all packets that a device has to send, and schedules their arrival."""
        with suppress(BlockingIOError):
            while packet := os.read(self._devices[sender], _LONGEST_PACKET):
                receiver = _receiver(packet)
                if receiver not in self._devices or not self._passes():
                    continue
                told = self.conditions
                at = time.monotonic() + told.delay_s + self._random.uniform(0, told.jitter_s)
                at = last[sender, receiver] = max(at, last.get((sender, receiver), 0.0))
                heapq.heappush(late, (at, next(order), receiver, packet))

    def _passes(self) -> bool:
        is_lost = self._random.random() < self.conditions.loss
        self.lost += is_lost
        return not is_lost


def _address(number: int) -> str:
    return f"10.77.0.{number + 1}"


def _receiver(packet: bytes) -> int:
    """Returns the number of the node that an IPv4 packet goes to; -1 for any other packet."""
    to_us = packet[0] >> 4 == 4 and packet[16:19] == bytes([10, 77, 0])
    return packet[19] - 1 if to_us else -1
