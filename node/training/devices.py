"""The device and the number of threads of training: the owner's choice, which no peer learns.

Vectors stay on the CPU for every device: what nodes agree on, mask and store is the same for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from node.system.addresses import is_loopback, split_endpoint
from node.system.errors import ConfigError, UserError, reason


def find_device(asked: str) -> torch.device:
    """Returns the device that train.device requests; ConfigError if torch does not find it here."""
    there = ["mps"] if torch.backends.mps.is_available() else []  # the fastest first
    if torch.cuda.is_available():
        there = ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count())), *there]
    there.append("cpu")
    if asked == "auto":
        return tried(torch.device(there[0]))
    if asked != "cpu" and asked not in there:
        raise ConfigError(
            f"train.device = {asked!r} is not there: torch {torch.__version__} finds "
            f"{', '.join(map(repr, there))}; set one of them, or 'auto' for {there[0]!r}"
        )
    return tried(torch.device(asked))


def tried(device: torch.device) -> torch.device:
    """Returns `device` after a trial addition; ConfigError for one that torch finds but cannot use.

    On a card, convolutions then have the 24 bits of the CPU and of matrix products, and not 11: else what a
    frozen body makes of a row alone and among others differs by more than rounding.
    """
    try:
        float(torch.ones(2, device=device).sum())
    except (RuntimeError, AssertionError) as error:  # no kernels for this card, an old driver, a lost device
        raise ConfigError(
            f"train.device = {str(device)!r} is there and does not work: {reason(error)}; set another, or "
            "'cpu'"
        ) from error
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
    return device


@contextmanager
def within_memory(device: str, batch_size: int) -> Iterator[None]:
    """Raises UserError if a device runs out of memory, for which each kind of device has its own error."""
    try:
        yield
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        raise UserError(
            f"train.device = {device!r} is out of memory; lower train.batch_size = {batch_size}, end what "
            "else uses it, or set 'cpu'"
        ) from error


def thread_count(asked: int | None, listen: str | None, peers: Iterable[str], tracker: str | None) -> int:
    """Returns torch's number of threads: `asked`, or this node's share of the cores that it may use.

    Peers on loopback, or on the host on which this node listens, count as local. A tracker on loopback is
    reachable only from this machine: all of its peers are local, in unknown number, so the result is 1.
    """
    if asked is not None:
        return asked
    if tracker is not None and is_loopback(tracker):
        return 1
    here = split_endpoint(listen)[0] if listen is not None else None
    local = sum(is_loopback(peer) or split_endpoint(peer)[0] == here for peer in peers)
    return max(1, usable_cores() // max(1, local))


def usable_cores() -> int:
    """Returns the number of cores that this process may use, which `taskset` and the like restrict."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
