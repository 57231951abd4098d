"""The CPU time that the benchmark of steps reports: of all processes below it, for each round."""

import os
import subprocess
import sys

import pytest

from benchmarks.steps import CpuWatch, _cpu_s_below
from scenarios.swarms.progress import PeerProgress

WORKS = """
import subprocess, sys, time
while time.process_time() < 0.3:
    pass
print("done", flush=True)
sys.stdin.read()
"""
PARENT = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {WORKS!r}]).returncode)"


def ended(*rounds: int) -> list[PeerProgress]:
    return [PeerProgress(number, number, 0, None) for number in rounds]


def test_the_time_of_processes_further_below_counts_too():
    before_s = _cpu_s_below(os.getpid())
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=-1, stdout=-1) as child:
        child.stdout.readline()
        assert _cpu_s_below(os.getpid()) >= before_s + 0.28
        child.stdin.close()


def test_a_round_has_its_share_of_the_time_while_no_peer_has_ended():
    watch = CpuWatch(last_round=9)
    watch.peers(ended(0, 1))
    watch.peers(ended(1, 2))
    assert watch.cpu_s_per_round() is None
    watch._seen[:] = [(1.5, 2.0)]
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=-1, stdout=-1) as child:
        child.stdout.readline()
        watch.peers(ended(5, 6))
        now_s = _cpu_s_below(os.getpid())
        watch.peers(ended(8, 9))
        child.stdin.close()
    assert watch.cpu_s_per_round() == pytest.approx((now_s - 2.0) / 4, abs=0.02)
