"""The measured member and the others, in threads: the session of the memory benchmark ends correctly."""

import os
import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import pytest

from benchmarks.memory.member import Cell, measure, serve
from benchmarks.memory.residence import cpu_seconds


@pytest.mark.parametrize(
    ("kind", "late"), [("seed", False), ("ring", False), ("float", False), ("float", True)]
)
def test_the_session_ends_with_the_mean_of_all_members(kind: str, late: bool) -> None:
    cell = Cell(kind, members=4, dimension=300_000, late=late)
    member, others = Pipe()
    told, results = Pipe(duplex=False)
    serving = threading.Thread(target=serve, args=(cell, others), daemon=True)
    serving.start()
    measure(cell, member, results)
    serving.join(20)
    assert not serving.is_alive()
    _, error = told.recv()
    assert error < 1e-3
    for end in (member, others, told, results):
        end.close()


def test_a_process_s_seconds_are_those_of_its_user_and_of_the_system() -> None:
    while os.times().system < 0.1:
        Path().stat()
    least_s = time.process_time()
    assert least_s - 0.03 < cpu_seconds(os.getpid()) < time.process_time() + 0.03  # in ticks of 10 ms
