"""Two parties: who is given what, in which order rows come, and that two halves learn as one network does."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from node.system.errors import UserError
from scenarios.data.criteo import Criteo, criteo
from scenarios.systems.label_dp.arms import PLAIN
from scenarios.vertical.parties import (
    NO_GRADIENTS,
    Follower,
    Leader,
    Network,
    Plan,
    Request,
    as_they_are,
    dealt,
)
from scenarios.vertical.wide_deep import Ftrl, Sizes
from tests.criteo_rows import ROWS, written

NETWORK = Network(Sizes(4, (8, 4)), replace(PLAIN.descent, learning_rate=0.01, l2=0.1), 0)
PLAN = Plan(training=160, evaluated=70, epochs=2, batch_size=64, seed=5)
OTHER = replace(PLAN, seed=6)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Criteo:
    return criteo(written(tmp_path_factory.mktemp("data")), 10)


def learning(rows: list[int]) -> Request:
    return Request(1, 1, True, np.array(rows))


def parties(rows: Criteo, source: np.ndarray | None = None) -> tuple[Leader, Follower]:
    leaders, followers = dealt(rows)
    labels = leaders.labels if source is None else source
    return Leader(leaders, NETWORK, labels), Follower(followers, NETWORK, as_they_are)


def test_each_party_has_its_own_columns_and_only_the_leader_labels_dev_before_test(rows: Criteo) -> None:
    leaders, followers = dealt(rows)
    assert leaders.train.ids.shape == (ROWS[0], 20)
    assert followers.train.ids.shape == (ROWS[0], 19)
    assert set(vars(followers)) == {"train", "evaluated"}
    assert np.array_equal(leaders.labels, rows.train.labels)
    assert leaders.evaluated_labels.tolist() == [*rows.dev.labels.tolist(), *rows.test.labels.tolist()]
    for held, dev, test in (
        (leaders.evaluated, rows.dev.leader, rows.test.leader),
        (followers.evaluated, rows.dev.follower, rows.test.follower),
    ):
        assert np.array_equal(held.ids, np.concatenate([dev.ids, test.ids]))
        assert np.array_equal(held.weights, np.concatenate([dev.weights, test.weights]))
        assert held.vocabulary == dev.vocabulary


def test_every_epoch_has_each_training_row_once_and_then_all_judged_ones_in_order() -> None:
    requests = list(PLAN.requests())
    assert [(one.epoch, one.step, one.learning, len(one.rows)) for one in requests] == [
        (epoch, step, learns, size)
        for epoch in (1, 2)
        for step, learns, size in ((1, True, 64), (2, True, 64), (3, True, 32), (1, False, 64), (2, False, 6))
    ]
    orders = [[one.rows.tolist() for one in plan.requests() if one.learning] for plan in (PLAN, PLAN, OTHER)]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:3] != orders[0][3:]
    for epoch in (1, 2):
        mine = [one for one in requests if one.epoch == epoch]
        trained = np.concatenate([one.rows for one in mine if one.learning])
        assert sorted(trained.tolist()) == list(range(160))
        assert trained.tolist() != sorted(trained.tolist())
        assert np.concatenate([one.rows for one in mine if not one.learning]).tolist() == list(range(70))


def test_two_halves_learn_as_one_network_does(rows: Criteo) -> None:
    """Gradients on the wire, and all weights after three steps, are those of autograd through both halves."""
    leader, follower = parties(rows)
    bottoms = [copy.deepcopy(one._learner.bottom) for one in (leader, follower)]
    top = copy.deepcopy(leader._top)
    wide = Ftrl([one for bottom in bottoms for one in bottom.wide_part], NETWORK.descent.ftrl)
    deep = [*top.parameters(), *(one for bottom in bottoms for one in bottom.deep_part)]
    adam = torch.optim.Adam(deep, lr=0.01, eps=1e-8)
    gradients = NO_GRADIENTS
    for start in (0, 40, 80):
        request = learning(list(range(start, start + 40)))
        chosen = torch.from_numpy(request.rows)
        halves = [
            bottom(torch.tensor(one.ids)[chosen], torch.tensor(one.weights)[chosen])
            for bottom, one in zip(bottoms, (rows.train.leader, rows.train.follower), strict=True)
        ]
        logits = top(torch.cat(halves, dim=1))[:, 0]
        labels = torch.tensor(rows.train.labels, dtype=torch.float32)[chosen]
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        (expected,) = torch.autograd.grad(loss, halves[1], retain_graph=True)
        outputs = follower.answer(request, gradients)
        assert outputs == pytest.approx(halves[1].detach().numpy(), abs=1e-6)
        step = leader.learn(request, outputs)
        gradients = step.gradients
        assert gradients == pytest.approx(expected.numpy(), abs=1e-7)
        assert np.abs(gradients).max() > 1e-5
        assert step.loss == step.true_loss == pytest.approx(loss.item(), abs=1e-6)
        for bottom in bottoms:
            bottom.zero_grad()
        adam.zero_grad()
        (loss + 0.05 * sum(bottom.deep.square().sum() for bottom in bottoms)).backward()
        wide.step()
        adam.step()
    follower.answer(learning([0]), gradients)
    for one, other in zip((leader, follower), bottoms, strict=True):
        for mine, theirs in zip(one._learner.bottom.parameters(), other.parameters(), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-5)
            assert mine.any()
    assert torch.allclose(leader._top.weight, top.weight, atol=1e-5)


def test_the_leader_reports_both_losses_and_judged_rows_teach_nothing(rows):
    flipped = 1 - rows.train.labels
    (honest, follower), (misled, _) = parties(rows), parties(rows, flipped)
    request = learning(list(range(50)))
    outputs = follower.answer(request, NO_GRADIENTS)
    one, other = honest.learn(request, outputs), misled.learn(request, outputs)
    assert other.true_loss == one.true_loss == one.loss
    assert other.loss != one.loss
    assert (np.sign(one.gradients) == -np.sign(other.gradients)).all()
    leader, follower = parties(rows)
    evaluated = Request(1, 1, False, np.arange(30))
    before = copy.deepcopy([*leader._learner.bottom.parameters(), *follower._learner.bottom.parameters()])
    first = leader.logits(evaluated, follower.answer(evaluated, NO_GRADIENTS))
    again = leader.logits(evaluated, follower.answer(evaluated, NO_GRADIENTS))
    assert first.shape == (30,)
    assert np.array_equal(first, again)
    after = [*leader._learner.bottom.parameters(), *follower._learner.bottom.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_what_leaves_the_follower_is_what_its_protection_makes_and_finite(rows):
    _, followers = dealt(rows)
    plain = Follower(followers, NETWORK, as_they_are)
    signs = Follower(followers, NETWORK, lambda outputs: (outputs > 0).float())
    request = learning([3, 4, 5, 6])
    sent = signs.answer(request, NO_GRADIENTS)
    assert set(np.unique(sent)) <= {0.0, 1.0}
    assert np.array_equal(sent, (plain.answer(request, NO_GRADIENTS) > 0).astype(np.float32))
    leader, follower = parties(rows)
    request = Request(7, 1, True, np.arange(4))
    follower.answer(request, NO_GRADIENTS)
    with pytest.raises(UserError, match=r"^training diverged in epoch 7; lower train\.learning_rate$"):
        follower.answer(request, np.full((4, 2), np.nan, np.float32))
    with pytest.raises(UserError, match="diverged in epoch 7"):
        leader.learn(request, np.full((4, 2), np.nan, np.float32))
