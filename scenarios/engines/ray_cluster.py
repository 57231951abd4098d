"""A connection to a Ray cluster: one at an address, or one on this machine for the duration of the run."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import ray

from node.system.errors import UserError, reason
from scenarios.engines.engine import cores

ANSWER_S = 5.0
_REMEDY = "start one with `ray start --head`, or leave ray.address out to have one for the run"

# The preface with which both sides of HTTP/2 begin (RFC 9113, Section 3.4); Ray speaks gRPC, over HTTP/2.
_SETTINGS = 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0))

# For a cluster of our own. Ray reads a token once per process; without one it makes a file at home.
OWN_CLUSTER = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def connected(address: str | None, working_dir: str | None, jobs: int | None) -> Iterator[int]:
    """Connect to Ray; yield the number of cells to run at a time. Raises UserError, one line.

    Without an address a cluster with `jobs` cores is started on this machine, and stopped at the end.
    """
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    with _environment(OWN_CLUSTER if address is None else {}):
        try:
            _connect(address, working_dir, jobs)
            yield jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            ray.shutdown()


def _connect(address: str | None, working_dir: str | None, jobs: int | None) -> None:
    if address is not None and address != "auto":
        reach(address)
    own: dict[str, Any] = {}
    if address is None:
        own = {"num_cpus": jobs or cores(), "include_dashboard": False}
    try:
        ray.init(
            address or "local",
            runtime_env={"working_dir": working_dir} if working_dir else None,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **own,
        )
    except Exception as error:  # Ray raises many kinds: socket errors, its own, ValueError
        told = "of this machine cannot be started" if address is None else f"at {address} cannot be used"
        raise UserError(f"--engine ray: a cluster {told} ({reason(error)})") from error


def reach(address: str) -> None:
    """Raise UserError within seconds unless something that may be Ray answers at [ray://]HOST:PORT.

    Ray itself would wait for minutes.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), ANSWER_S) as connection:
            connection.settimeout(ANSWER_S)
            connection.sendall(_PREFACE)
            answer = connection.recv(len(_PREFACE))
    except (OSError, OverflowError) as error:
        raise UserError(f"ray.address = {address} does not answer ({reason(error)}); {_REMEDY}") from None
    if answer[3:4] != bytes((_SETTINGS,)):
        raise UserError(f"ray.address = {address} answers, but not as Ray does; {_REMEDY}")


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables, except those that the user has set."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            with suppress(KeyError):
                del os.environ[name]
