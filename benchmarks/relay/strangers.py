"""Strangers who flood a relay's port, as those of the siege of a node do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from benchmarks.siege.attacker import Force
from node.system.errors import UserError

_MOST_S = 300.0


@contextmanager
def attacked(endpoint: str, force: Force) -> Iterator[None]:
    """Attack an endpoint while the context is entered, which is once all connections have been opened."""
    argv = [
        sys.executable,
        "-m",
        "benchmarks.siege.attacker",
        "--endpoint",
        endpoint,
        "--seconds",
        str(_MOST_S),
    ]
    argv += [part for kind, count in asdict(force).items() for part in (f"--{kind}", str(count))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as attacker:
        try:
            if attacker.stdout is None or not attacker.stdout.readline():
                raise UserError("relay: the attacker ended before it had opened its connections")
            yield
        finally:
            attacker.kill()
