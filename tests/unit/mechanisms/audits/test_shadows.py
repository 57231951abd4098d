"""Scores from shadow models: by hand, against scipy's normal, and on examples of unequal difficulty."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from mechanisms.audits import membership, shadows
from mechanisms.audits.membership import Losses
from mechanisms.audits.shadows import Shadows

LOSSES = Losses(np.array([0.1, 2.0]), np.array([0.5, 3.0, math.inf]))
SHADOWS = Shadows(np.array([[0.3, 4.0], [0.5, 5.0]]), np.array([[0.4, 2.0, 1.0], [0.6, 4.0, 3.0]]))


def unequal(seed: int, shadow_count: int) -> tuple[Losses, Shadows]:
    """Examples from easy to hard; training on one takes a fifth off its loss."""
    rng = np.random.default_rng(seed)
    hard = rng.uniform(0.05, 3, 400)

    def under_a_model(count: int) -> np.ndarray:
        return hard * np.exp(rng.normal(0, 0.1, (count, 400)))

    own, others = under_a_model(1)[0], under_a_model(shadow_count)
    own[:200] *= 0.8
    return Losses(own[:200], own[200:]), Shadows(others[:, :200], others[:, 200:])


def test_calibration_takes_the_shadows_mean_away_also_of_one() -> None:
    found = shadows.calibrated_losses(LOSSES, SHADOWS)
    np.testing.assert_allclose(found.members, [0.1 - 0.4, 2.0 - 4.5])
    np.testing.assert_allclose(found.others, [0.0, 0.0, math.inf])
    one = Shadows(SHADOWS.members[:1], SHADOWS.others[:1])
    assert shadows.calibrated_losses(LOSSES, one).members[0] == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="1 shadow is not allowed"):
        shadows.likelihood_ratio(LOSSES, one)
    logits = shadows.logits(np.array([0.0, 1e-20, math.log(2), 800.0, math.inf]))
    ends = [30 * math.log(10), 20 * math.log(10), 0.0, -800.0, -math.inf]
    np.testing.assert_allclose(logits, ends, atol=1e-9)


def test_the_likelihood_ratio_is_that_of_the_offline_attack() -> None:
    """-Phi^-1 of the published score 1 - Pr[Z > logit], with one standard deviation for all."""

    def logit(losses: np.ndarray) -> np.ndarray:
        return np.log(np.exp(-losses) / (1 - np.exp(-losses)))

    found = shadows.likelihood_ratio(LOSSES, SHADOWS)
    out = np.concatenate((logit(SHADOWS.members), logit(SHADOWS.others)), axis=1)
    std = math.sqrt(out.var(axis=0, ddof=1).mean())
    with np.errstate(divide="ignore"):
        own = np.concatenate((logit(LOSSES.members), logit(LOSSES.others)))
    published = 1 - norm.sf(own, out.mean(axis=0), std)
    np.testing.assert_allclose(norm.cdf(-np.concatenate((found.members, found.others))), published)
    assert found.others[2] == math.inf


@pytest.mark.parametrize("score", [shadows.calibrated_losses, shadows.likelihood_ratio])
def test_difficulty_no_longer_hides_members(score) -> None:
    losses, own = unequal(0, 16)
    assert membership.auc(losses) < 0.62
    assert membership.auc(score(losses, own)) > membership.auc(losses) + 0.1


def test_shadows_that_agree_have_a_score_all_the_same() -> None:
    alike = Shadows(np.ones((3, 1)), np.ones((3, 1)))
    found = shadows.likelihood_ratio(Losses(np.array([0.5]), np.array([2.0])), alike)
    assert found.members[0] < 0 < found.others[0]
    assert np.isfinite(found.members).all()


@pytest.mark.parametrize(
    ("members", "others", "said"),
    [
        (np.zeros((0, 2)), np.zeros((0, 3)), r"members of shape \(0, 2\)"),
        (np.zeros((1, 2)), np.zeros(3), r"others of shape \(3,\)"),
        (np.zeros((1, 2)), np.full((1, 3), math.inf), "others that are not finite"),
        (np.zeros((1, 2)), np.zeros((2, 3)), "1 shadows of members and 2 of others"),
    ],
)
def test_shadows_that_are_none_are_refused(members: np.ndarray, others: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Shadows(members, others)


@pytest.mark.parametrize("score", [shadows.calibrated_losses, shadows.likelihood_ratio])
def test_shadows_of_other_examples_are_refused(score) -> None:
    for members, others, said in ((3, 3, "members: 2 losses and 3"), (2, 1, "others: 3 losses and 1")):
        with pytest.raises(ValueError, match=f"{said} of each shadow"):
            score(LOSSES, Shadows(np.zeros((2, members)), np.zeros((2, others))))
