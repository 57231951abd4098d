"""Runs many seeds, one after the other or in several processes, and says of each how it ended."""

from __future__ import annotations

import io
import logging
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial

import torch

from tests.box.disk import folder_in_memory
from tests.box.lying import LyingRun
from tests.box.relay_seeds import RelayRun
from tests.box.seeds import Goes, Run, run_seed


@dataclass(frozen=True)
class Done:
    """A seed that was run; `failed` says why it failed, if it did; `box_s` is the time that passed in it."""

    seed: int
    failed: str
    cpu_s: float
    box_s: float = 0.0


KINDS: dict[str, type[Goes]] = {"faults": Run, "lying": LyingRun, "relays": RelayRun}
"""What a seed may make."""


def run(seed: int, *, trace: bool = False, kind: str = "faults") -> Done:
    """Runs a seed of one of KINDS; prints its trace if asked, or if it fails."""
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    begun_s, failed, box_s = time.process_time(), "", 0.0
    with folder_in_memory() as folder:
        try:
            with redirect_stdout(io.StringIO()):  # a tracker says who is there
                box = run_seed(seed, folder / "box", KINDS[kind])
            box_s = box.loop.time()
            if trace:
                print("\n".join(box.trace))
        except Exception as error:  # noqa: BLE001 - a seed that fails is what this looks for
            failed = f"{type(error).__name__}: {error}"
            print(f"seed {seed} failed\n{failed}", flush=True)
    return Done(seed, failed[:2000], round(time.process_time() - begun_s, 2), round(box_s, 1))


def run_all(seeds: list[int], jobs: int, *, kind: str = "faults") -> Iterator[Done]:
    """Runs seeds in so many processes; yields them in their order."""
    if jobs == 1:
        yield from map(partial(run, kind=kind), seeds)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(run, kind=kind), seeds)
