"""The residual test on real nodes that share noise, one of which colludes: sound, and with planted faults.

Their noise is from the system: a sound swarm fails with probability 1e-6, and no fault is missed that often.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.audit.shared.faults import Fault, faults, no_fault, tensor_wise_fault
from benchmarks.audit.shared.swarm import Crowd, residuals
from mechanisms.audits.residuals import finding

CROWD = Crowd(members=4, honest=3, steps=3, sizes=(64, 16, 10))
LOUD = replace(CROWD, loud=10)
ERROR_RATE = 1e-6


@pytest.mark.parametrize("crowd", [CROWD, LOUD], ids=["usual-rows", "loud-rows"])
def test_what_is_left_of_real_sums_is_the_noise_of_the_honest(crowd: Crowd) -> None:
    found = finding(residuals(crowd, no_fault(3), seed=1), ERROR_RATE)
    assert not found.is_refuted, found.words


@pytest.mark.parametrize(
    ("crowd", "fault"),
    [(CROWD, faults(3, 4)[0]), (CROWD, faults(3, 4)[4]), (LOUD, tensor_wise_fault(3))],
    ids=["one-adds-none", "only-ones-own", "clipped-by-tensor"],
)
def test_a_fault_in_a_real_node_shows(crowd: Crowd, fault: Fault) -> None:
    found = finding(residuals(crowd, fault, seed=2), ERROR_RATE)
    assert found.is_refuted, found.words
