"""The audits of shared noise find each planted fault and nothing else; faults are what they say."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from benchmarks.__main__ import main
from benchmarks.audit.shared import sums
from benchmarks.audit.shared.faults import faults, faulty_rule, no_fault
from benchmarks.audit.shared.findings import LOUD, ONE_RUN, RESIDUALS, SHARED, SHIFT, SWARM
from benchmarks.audit.shared.reference import Reference
from node.system.errors import ConfigError
from node.task.load import load_task

RULE = sums.rule_of(100, 500.0, 3)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        (LOUD, ["false alarms", "each tensor clipped by itself"]),
        (SHIFT, ["records beyond C / g", "no room for the rounding"]),
        (ONE_RUN, ["epsilon is at least", "only a seventh of the variance", "a quarter of the noise"]),
    ],
)
def test_quick_audits_hold(tmp_path, name, figures, monkeypatch):
    monkeypatch.setattr(sums, "CANARIES", 1_000)
    monkeypatch.setattr(sums, "GUESSES", 100)
    file = tmp_path / "figures.json"
    assert main(["audit", "--quick", "--only", name, "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert [figure["figure"] for figure in found] == figures
    assert all(figure["holds"] for figure in found), [figure["note"] for figure in found]


def test_every_fault_of_the_table_is_planted_in_sums_and_in_real_nodes() -> None:
    assert set(SHARED) == {RESIDUALS, LOUD, SHIFT, ONE_RUN, SWARM}
    assert [fault.name for fault in faults(7, 10)] == [
        "one adds no noise",
        "sized for 8 instead of 7",
        "noise divided among all 10",
        "the std divided by 7, not the variance",
        "only one's own noise",
        "decoded 2 % too large",
        "decoded 2 % too small",
    ]
    assert all(len(fault.shares) == 7 for fault in faults(7, 10))
    assert no_fault(7).shares == (1.0,) * 7


def test_a_fault_changes_what_it_says_and_not_the_grid_and_no_configuration_reaches_it():
    words = np.array([1, 2**32 - 5], dtype=np.uint32)
    less = faulty_rule(RULE, 0.5, 1.02)
    assert less.share_std == RULE.share_std / 2
    assert less.unit == RULE.unit
    assert less.decode(words) == pytest.approx(1.02 * RULE.decode(words))
    assert 0 < faulty_rule(RULE, 0.0, 1.0).share_std / RULE.unit < 1e-3, "each draw is rounded to none"
    assert faulty_rule(RULE, 1.0, 1.0) is RULE
    with pytest.raises(ConfigError, match="share"):
        load_task("digits", ["privacy.mechanism=distributed-dp-sgd", "privacy.share=0.5"])


def test_the_reference_is_a_loop_over_rows() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    x, y = torch.randn(300, 4, generator=torch.Generator().manual_seed(1)), torch.arange(300) % 2
    flat = np.concatenate([value.detach().numpy().ravel() for value in model.parameters()])
    expected = np.zeros(len(flat))
    for row, target in zip(x, y, strict=True):
        model.zero_grad()
        functional.cross_entropy(model(row[None]), target[None]).backward()
        gradient = np.concatenate([value.grad.numpy().ravel() for value in model.parameters()]).astype(float)
        expected += gradient * min(1.0, 0.3 / np.linalg.norm(gradient))
    found = Reference(model, functional.cross_entropy, 0.3)(flat, x, y)
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
