"""Which engine a run asks for, and what a cluster is told."""

from __future__ import annotations

from dataclasses import dataclass

from node.task.rules import key, text

_ADDRESS = r"auto|(ray://)?[^\s/:]+:\d{1,5}"


@dataclass(frozen=True)
class RaySection:
    """The keys of `ray.`. Without an address a Ray of this machine is started for the run.

    `working_dir` is a folder that Ray copies to every machine of the cluster: modules of one's own, say.
    """

    address: str | None = key(text("'auto', HOST:PORT or ray://HOST:PORT", _ADDRESS), None)
    working_dir: str | None = key(text("a folder"), None)


@dataclass(frozen=True)
class EngineChoice:
    """Which engine, with how many cells side by side; None: as many as suit it."""

    name: str
    jobs: int | None
    ray: RaySection
