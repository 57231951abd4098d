"""Flower's SecAgg+, the compute of one client, in an interpreter of its own."""

from __future__ import annotations

from pathlib import Path


def flower_cpu_s(python: Path, n: int, d: int) -> float:
    raise NotImplementedError
