"""Flower's SecAgg+: the CPU time of one client, in an interpreter of its own, without a network.

A script calls the client's four stages in the order in which a server's messages would. It also makes the
keys and shares of the other clients, and does not count that time. Every client is a neighbour of every
other, as in a masked session.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from node.system.errors import UserError

_PATIENCE_S = 600.0
_SCRIPT = """
import importlib, os, resource, statistics, sys
import numpy as np
from flwr.common import ndarrays_to_parameters

n, d = int(sys.argv[1]), int(sys.argv[2])
mod = importlib.import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")
KEY = importlib.import_module("flwr.common.secure_aggregation.secaggplus_constants").Key
SETTINGS = {
    KEY.SAMPLE_NUMBER: n,
    KEY.SHARE_NUMBER: n,
    KEY.THRESHOLD: n - n // 5,
    KEY.CLIPPING_RANGE: 8.0,
    KEY.TARGET_RANGE: 1 << 22,
    KEY.MOD_RANGE: 1 << 32,
    KEY.MAX_WEIGHT: 1000.0,
}

def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

def once(parameters):
    spent = 0.0
    def timed(call, *arguments):
        nonlocal spent
        begun = cpu_s()
        result = call(*arguments)
        spent += cpu_s() - begun
        return result
    states = [mod.SecAggPlusState(nid=number) for number in range(n)]
    first, others = states[0], states[1:]
    keys = [timed(mod._setup, first, dict(SETTINGS)), *(mod._setup(one, dict(SETTINGS)) for one in others)]
    known = {str(i): [key[KEY.PUBLIC_KEY_1], key[KEY.PUBLIC_KEY_2]] for i, key in enumerate(keys)}
    timed(mod._share_keys, first, known)
    shared = [mod._share_keys(one, known) for one in others]
    ciphertexts = [dict(zip(s[KEY.DESTINATION_LIST], s[KEY.CIPHERTEXT_LIST]))[0] for s in shared]
    received = {KEY.CIPHERTEXT_LIST: ciphertexts, KEY.SOURCE_LIST: list(range(1, n))}
    timed(mod._collect_masked_vectors, first, received, 1000, parameters)
    timed(mod._unmask, first, {KEY.ACTIVE_NODE_ID_LIST: list(range(n)), KEY.DEAD_NODE_ID_LIST: []})
    return spent

vector = np.random.default_rng(0).random(d, dtype=np.float32)
parameters = ndarrays_to_parameters([vector])
once(parameters)
print(statistics.median(once(parameters) for _ in range(3)))
"""


def flower_cpu_s(python: Path, n: int, d: int) -> float:
    """Return the CPU seconds of one of n clients for d coordinates: the median of three. Raises UserError."""
    try:
        done = subprocess.run(
            [python, "-", str(n), str(d)],
            input=_SCRIPT,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        return float(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["it said nothing"]
        raise UserError(f"--flwr-python {python}: {said[-1]}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise UserError(f"--flwr-python {python}: {error}") from error
