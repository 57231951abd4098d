"""Times all kinds of noise by turns, and measures the memory of ours."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import torch

from benchmarks.spec import Figure, figure
from mechanisms.noise.noise import noised
from mechanisms.noise.randomness import SystemWords
from scenarios.study.threads import one_thread

NOISE_STD, RADIUS = 2.0, 1.0
VECTORS_AT_MOST, BUFFERS_BYTES = 1.0, 2 << 20
GOAL_GB_PER_S = 0.5
OURS, RIVAL = "clipped vector + noise", "torch.randn std + vector"


def findings(dimension: int, repeats: int) -> Iterator[Figure]:
    """Yield the speeds of all kinds on a vector (dimension,), their ratios, and the memory of ours."""
    case = f"d={dimension / 1e6:g}M"
    vector = np.full(dimension, RADIUS / (2 * dimension**0.5), dtype=np.float32)
    with one_thread():
        timings = _time_in_turns(_contestants(vector), repeats)
    speeds = {name: [vector.nbytes / wall_s / 1e9 for wall_s, _ in each] for name, each in timings.items()}
    for name, values in speeds.items():
        goal = GOAL_GB_PER_S if name == OURS else None
        yield figure("noise", case, name, "GB/s", values, at_least=goal)
    for name, each in timings.items():
        yield figure(
            "noise", case, f"CPU, {name}", "ns/element", [cpu_s / dimension * 1e9 for _, cpu_s in each]
        )
    for name, values in speeds.items():
        if name != OURS:
            ratio = median(values) / median(speeds[OURS])
            yield figure("noise", case, f"time over {name}", "x", [ratio], 1.0 if name == RIVAL else None)
    ours = median(speeds[OURS])
    either = max(ours / GOAL_GB_PER_S, ours / median(speeds[RIVAL]))
    note = f"the better of speed over {GOAL_GB_PER_S} GB/s and over {RIVAL}"
    yield figure("noise", case, "either goal", "x", [either], note=note, at_least=1.0)
    yield _memory_figure(case, vector)


def _contestants(vector: np.ndarray) -> dict[str, Callable[[], object]]:
    words, rng = SystemWords(), np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    plain, buffer = torch.from_numpy(vector), torch.empty(len(vector))
    return {
        OURS: lambda: noised(vector, NOISE_STD, RADIUS, words),
        RIVAL: lambda: torch.randn(len(vector), generator=generator).mul_(NOISE_STD).add_(plain),
        "torch normal_ in place": lambda: buffer.normal_(generator=generator),
        "numpy standard_normal": lambda: rng.standard_normal(len(vector), dtype=np.float32),
    }


def _time_in_turns(
    contestants: dict[str, Callable[[], object]], repeats: int
) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds and CPU seconds of each contestant's calls, after one that does not count.

    They take turns: other work on the machine slows all of them.
    """
    timings: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for repeat in range(repeats + 1):
        for name, call in contestants.items():
            begun_s, cpu_begun_s = time.perf_counter(), time.thread_time()
            call()
            if repeat:
                spent_s = time.perf_counter() - begun_s, time.thread_time() - cpu_begun_s
                timings[name].append(spent_s)
    return timings


def _memory_figure(case: str, vector: np.ndarray) -> Figure:
    """Return the peak of what Python and numpy allocate, the noised vector included."""
    tracemalloc.start()
    try:
        noised(vector, NOISE_STD, RADIUS, SystemWords())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    most = VECTORS_AT_MOST + BUFFERS_BYTES / vector.nbytes
    return figure(
        "noise",
        case,
        "memory beside the vector",
        "x 4d",
        [peak / vector.nbytes],
        most,
        "one vector and 2 MiB",
    )
