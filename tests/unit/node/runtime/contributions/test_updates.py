"""Updates whose training gives values that are not finite: who is told, and what is offered."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from node.runtime.contributions.metric_of_all import NoMetric
from node.runtime.contributions.updates import Updates
from node.runtime.contributions.weighting import Uniform
from node.training.trainer import Diverged, Trained

NEVER = threading.Event()


class Far:
    """A learner whose models are finite, and further apart than float32 reaches."""

    once = False

    def train(self, working, round_number, stop, own=None):
        return Trained(np.full_like(working, 3e38 if own % 2 else -3e38), 0.5, 2.0)


def updates(alone, mechanism):
    node = alone(mechanism)
    return node.state, Updates(node.state, Far(), node.mechanism, Uniform(), NoMetric())


async def test_an_update_that_overflows_is_no_progress_where_noise_covers_it(alone):
    state, subject = updates(alone, "ldp")
    first = subject.prepare(1, NEVER)
    assert (first.loss, first.offered, first.warning) == (0.5, True, "")
    before = state.fresh.copy()
    second = subject.prepare(2, NEVER)
    assert (second.loss, second.seconds, second.offered) == (None, 2.0, True)
    assert second.warning == (
        "this node's training of round 2 gave values that are not finite, and counts as no progress; the "
        "others are not told; lower train.learning_rate, and look for huge values in the data"
    )
    assert np.array_equal(state.fresh, before)
    assert np.isfinite(subject.offer()).all()


async def test_an_update_that_overflows_ends_a_node_without_noise(alone):
    state, subject = updates(alone, "none")
    subject.prepare(1, NEVER)
    with pytest.raises(Diverged, match="training diverged; lower train"):
        subject.prepare(2, NEVER)
    assert np.isfinite(state.fresh).all()
