"""What a node was asked to do: where its rounds are several sums, those of its peers are, too."""

from dataclasses import replace

from node.runtime.plan import Plan
from node.task.load import load_task
from tests.parts import base

SECTION = load_task("digits", []).aggregation
STEPS = Plan(20, "digits", "", "test", "", SECTION, expected=3, generations=195, report_every=10)


def test_a_peer_announces_sums_and_is_shown_by_rounds():
    at_74 = base(74)
    assert STEPS.round(76, at_74) == 7
    assert STEPS.peers_round(76, 76, at_74) == 7, "two sums failed, for both"
    assert STEPS.peers_round(81, 76, at_74) == 7
    assert STEPS.peers_round(82, 76, at_74) == 8
    assert STEPS.peers_round(3, 76, at_74) == 0, "it has just come"
    assert STEPS.peers_round(900, 76, at_74) == 20
    updates = replace(STEPS, report_every=None, generations=None)
    assert updates.peers_round(81, 76, at_74) == 81, "where a round is one sum, it is where it says"
