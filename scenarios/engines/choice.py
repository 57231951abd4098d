"""The engine that a run uses, and the options of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from node.task.rules import key, text

ENGINES = ("inline", "processes", "ray")
"""Of a study; the first one is the usual one."""
_ADDRESS = r"auto|(ray://)?[^\s/:]+:\d{1,5}"


@dataclass(frozen=True)
class RaySection:
    """The keys of `ray.`. Without an address the run starts a Ray cluster on this machine.

    `working_dir` is a folder that Ray copies to every machine of the cluster, for example with own modules.
    """

    address: str | None = key(text("'auto', HOST:PORT or ray://HOST:PORT", _ADDRESS), None)
    working_dir: str | None = key(text("a folder"), None)


@dataclass(frozen=True)
class EngineChoice:
    """The engine, and the number of cells that it runs side by side; None: the engine decides."""

    name: str
    jobs: int | None
    ray: RaySection
