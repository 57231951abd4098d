"""What a node was asked to do: rounds, its own and its peers', are counted by the sums that were agreed."""

from dataclasses import replace

from node.runtime.plan import Plan
from node.task.load import load_task
from tests.parts import base

TASK = load_task(
    "digits", ["privacy.mechanism=distributed-dp-sgd", "train.steps=195", "train.report_every=10"]
)
STEPS = Plan(TASK, "", "test", rounds=20, sums=195, tries=195, report_every=10)


def test_rounds_are_counted_by_the_sums_that_led_to_a_base():
    updates = replace(STEPS, report_every=None, sums=20)
    assert [updates.round(base(sums)) for sums in (0, 7, 20, 21)] == [0, 7, 20, 20]
    assert [STEPS.round(base(sums)) for sums in (0, 9, 10, 74, 194, 195)] == [0, 0, 1, 7, 19, 20]


def test_a_peer_that_claims_more_sums_than_the_run_has_is_shown_at_its_end():
    assert [STEPS.round_after(sums) for sums in (0, 82, 10**9)] == [0, 8, 20]


def test_the_sums_of_a_job_are_for_one_thing_after_another():
    job = replace(STEPS, purposes=(("cells", 2), ("curves", 3)))
    assert [job.purpose(sums) for sums in (0, 1, 2, 4, 9)] == ["cells", "cells", "curves", "curves", "curves"]
    assert STEPS.purpose(3) == "sum"
    told = [tuple(job.sums_for(sums).values()) for sums in (0, 1, 2, 4, 9)]
    assert told == [(0, 0), (1, 0), (2, 0), (2, 2), (2, 7)]
    three = replace(STEPS, purposes=(("cells", 2), ("curves", 3), ("trees", 4)))
    assert three.sums_for(6) == {"cells": 2, "curves": 3, "trees": 1}
    assert (STEPS.sums_for(3), replace(STEPS, cohort=True).sums_for(3)) == ({}, {"sum": 3})
