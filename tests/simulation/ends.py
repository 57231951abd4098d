"""Counts how random schedules of bare masked machines end, in several processes at once."""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.signatures import known_if_made_here
from tests.simulation.bare import Swarm
from tests.simulation.schedules import chaos, remembered

WORKERS = 2


def ends_of(first: int, count: int) -> Counter[str]:
    """Counts the ends of these seeds. Raises Violation, which names the seed, at the first broken rule."""
    with known_if_made_here(), remembered():
        return Counter(_end_of(Swarm(chaos(seed)).run()) for seed in range(first, first + count))


def side_by_side(first: int, count: int) -> Counter[str]:
    """Does the same in WORKERS processes."""
    each = count // WORKERS
    firsts = range(first, first + count, each)
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        return sum(pool.map(ends_of, firsts, [each] * len(firsts)), Counter())


def _end_of(swarm: Swarm) -> str:
    if not swarm.completed:
        return "released, nobody completed" if swarm.releases else "nothing released"
    return "all" if len(swarm.completed) == len(swarm.survivors) else "some"
