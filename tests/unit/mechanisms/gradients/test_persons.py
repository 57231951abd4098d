"""Sums of the gradients of persons: what they are, and how far one person moves what is really computed."""

import numpy as np
import pytest
import torch

from mechanisms.gradients import clipped_sum, trial
from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.layers import Positions, Rows, gamma
from mechanisms.gradients.persons import PersonGradients, group_by_width, widths
from tests.unit.mechanisms.gradients.models import (
    MODELS,
    Text,
    built,
    clipped,
    cross_entropy,
    named,
    objective,
    one_by_one,
)

RADIUS, MOST, EACH = 0.3, 10_000, 8
COUNTS = [3, 1, 8, 1, 2, 5, 4, 1, 7, 2, 1, 6]


def summed(model, x, y, *, radius=RADIUS, each=EACH, expected=8.0):
    return ClippedSum(objective(model, x, y), radius, MOST, expected, each)


def crowd(kind, counts=COUNTS, seed=0):
    """A model, x, y, and the person of each row; the rows of a person are scattered over the batch."""
    model, x, y = built(kind, sum(counts), seed)
    persons = torch.repeat_interleave(10 * torch.arange(len(counts)), torch.tensor(counts))
    order = torch.randperm(len(persons), generator=torch.Generator().manual_seed(seed))
    return model, x, y, persons[order]


def of_each(model, x, y, persons):
    """(P, d) float64: the sum of the gradients of each person's rows, one row at a time."""
    rows = one_by_one(model, named(model), cross_entropy, x, y)
    return np.array([rows[(persons == person).numpy()].sum(0) for person in torch.unique(persons)])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("radius", [0.05, 1000.0])
def test_the_sum_is_that_of_each_persons_gradients_clipped_together(kind, radius):
    model, x, y, persons = crowd(kind)
    total = summed(model, x, y, radius=radius)
    found = total(x, y, persons)
    wanted = clipped(of_each(model, x, y, persons), radius).sum(0)
    assert total.method == "book-keeping"
    assert found.vector == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    losses = [cross_entropy(model(x[row : row + 1]), y[row : row + 1]).item() for row in range(len(x))]
    assert found.stays.mean_loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert not total(x[:0], y[:0], persons[:0]).vector.any()


@pytest.mark.parametrize("kind", MODELS)
def test_a_person_moves_the_sum_by_no_more_than_the_radius(kind):
    """With many rows or one, beside persons of the same width and of others."""
    model, x, y, persons = crowd(kind, COUNTS * 3)
    total = summed(model, x, y)
    every = total(x, y, persons).vector
    for person in range(0, 10 * len(COUNTS), 10):
        others, own = persons != person, persons == person
        difference = every - total(x[others], y[others], persons[others]).vector
        alone = total(x[own], y[own], persons[own]).vector
        assert np.linalg.norm(difference) <= RADIUS
        assert np.linalg.norm(difference - alone) < 1e-9


def test_rows_that_are_clipped_one_by_one_are_caught():
    """Planted: each row by itself within the radius, a person with 8 rows moves the sum by more."""
    model, x, y, persons = crowd("linear", [8, 1, 1])
    x[persons == 0], y[persons == 0] = x[0].clone(), y[0].clone()
    total = ClippedSum(objective(model, x, y), RADIUS, MOST, 8.0)
    others = persons != 0
    assert np.linalg.norm(total(x, y).vector - total(x[others], y[others]).vector) > 5 * RADIUS


def test_the_order_in_which_persons_come_does_not_matter():
    model, x, y, persons = crowd("layer norm")
    last_first = torch.cat([torch.nonzero(persons == person)[:, 0] for person in persons.unique().flip(0)])
    total = summed(model, x, y)
    found = total(x[last_first], y[last_first], 1000 - persons[last_first]).vector
    assert found == pytest.approx(total(x, y, persons).vector, abs=1e-13)


def test_what_the_padding_holds_has_no_effect():
    """A model that is infinite at zeros, which fill up a person with 3 rows."""

    class AtZero(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = torch.nn.Linear(5, 3)

        def forward(self, x):
            return self.out(1 / x)

    x, y = torch.rand(3, 5) + 1, torch.tensor([0, 1, 2])
    model = AtZero()
    found = ClippedSum(objective(model, x, y), RADIUS, MOST, 4.0, 4)(x, y, torch.zeros(3, dtype=torch.int64))
    wanted = clipped(of_each(model, x, y, torch.zeros(3)), RADIUS).sum(0)
    assert (found.stays.not_finite, found.vector) == (0, pytest.approx(wanted, rel=1e-4))


def test_a_person_with_a_row_that_is_not_finite_counts_as_zero():
    model, x, y, persons = crowd("linear")
    x[torch.nonzero(persons == 20)[0]] = torch.inf
    found, others = summed(model, x, y)(x, y, persons), persons != 20
    assert found.stays.not_finite == 1
    assert np.array_equal(found.vector, summed(model, x, y)(x[others], y[others], persons[others]).vector)


@pytest.mark.parametrize(("each", "wanted"), [(1, (1,)), (2, (1, 2)), (5, (1, 2, 4, 8)), (8, (1, 2, 4, 8))])
def test_widths_are_powers_of_two(each, wanted):
    assert widths(each) == wanted


def test_persons_stand_in_blocks_of_their_width():
    persons = torch.tensor([7, 3, 7, 3, 7, 5])
    x = torch.arange(6.0)[:, None]
    found = list(group_by_width(x, x[:, 0], persons))
    assert [group.width for group in found] == [1, 2, 4]
    assert [group.x[:, :, 0].tolist() for group in found] == [[[5]], [[1, 3]], [[0, 2, 4, 0]]]
    assert found[2].own.tolist() == [[True, True, True, False]]
    assert [group.y.tolist() for group in found][1] == [[1, 3]]


def test_few_positions_are_compared_and_many_are_added_up():
    """As for sequences: by inner products while these are fewer than the gradient's numbers."""
    model = torch.nn.Linear(40, 30)
    x, y = torch.randn(16, 40), torch.randint(0, 30, (16,))
    total = summed(model, x, y)
    kinds = {
        width: type(way.method(*blank(way.rows, width))[0]["weight"])
        for width, way in total._ways.items()
        if width > 1
    }
    assert kinds == {2: Positions, 4: Positions, 8: Positions}
    wide = PersonGradients(total._ways[1].method, 16)
    assert isinstance(wide(*blank(1, 16))[0]["weight"], Rows)


def blank(persons, width):
    x = torch.zeros(persons, width, 40)
    return x, torch.zeros(persons, width, dtype=torch.int64), torch.ones(persons, width, dtype=torch.bool)


def test_where_no_block_of_several_is_right_each_person_has_its_own(monkeypatch):
    original = trial.Trial._is_independent
    rows_alone = lambda self, way, width: width == 1 and original(self, way, width)  # noqa: E731
    monkeypatch.setattr(trial.Trial, "_is_independent", rows_alone)
    model, x, y, persons = crowd("linear")
    total = summed(model, x, y)
    wanted = clipped(of_each(model, x, y, persons), RADIUS).sum(0)
    assert [total._ways[width].rows for width in (2, 4, 8)] == [1, 1, 1]
    assert total(x, y, persons).vector == pytest.approx(wanted, rel=1e-4, abs=1e-5)


class Deciding(torch.nn.Module):
    """Decides by the values of a row, which vmap cannot follow: rows are taken one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.out = torch.nn.Linear(5, 3)

    def forward(self, x):
        return self.out(x if x.sum() > 0 else -x)


def test_persons_of_a_model_that_takes_rows_one_by_one():
    model = Deciding()
    x, y, persons = torch.randn(6, 5), torch.randint(0, 3, (6,)), torch.tensor([0, 0, 0, 1, 2, 2])
    total = summed(model, x, y)
    wanted = clipped(of_each(model, x, y, persons), RADIUS).sum(0)
    assert total.method.startswith("each row by itself")
    assert total(x, y, persons).vector == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_the_clip_is_shrunk_for_the_longest_sequences_of_any_width():
    """C' = C / (1 + nu + 2 gamma_N B rho): a person of width 8 has 8 times a row's products."""
    model, x, y = Text(), torch.randint(0, 20, (8, 6)), torch.randint(0, 3, (8,))
    total = summed(model, x, y)
    of_width = {1: total._ways[1].method(x, y)[0]}
    for width in (2, 4, 8):
        group = x[None, :width], y[None, :width], torch.ones(1, width, dtype=torch.bool)
        of_width[width] = total._ways[width].method(*group)[0]
    parts = {width: list(found.values()) for width, found in of_width.items()}
    assert max(part.terms for part in parts[8]) == 48
    terms = max(total._ways[width].rows * part.terms for width, found in parts.items() for part in found)
    blocks = sum(way.most_blocks(MOST) for way in total._ways.values())
    nu = 2.0**-40 + max(part.norm_error() for found in parts.values() for part in found)
    added = 2 * gamma(terms + blocks + 8) * MOST * 2**8
    assert total._clip == pytest.approx(RADIUS / (1 + nu + added), rel=1e-14)


@pytest.mark.parametrize(
    ("each", "persons", "words"),
    [
        (8, None, "persons must be given where rows_per_person is"),
        (None, [0, 1, 2], "persons must be given where rows_per_person is"),
        (2, [0, 0, 0], "a person has 4 places; allowed: at most rows_per_person = 2"),
    ],
)
def test_what_does_not_fit_is_refused(each, persons, words):
    model, x, y = built("linear", 3)
    given = None if persons is None else torch.tensor(persons)
    with pytest.raises(ValueError, match=words):
        ClippedSum(objective(model, x, y), RADIUS, MOST, 2.0, each)(x, y, given)


def test_more_persons_than_were_said_to_come_are_refused():
    model, x, y = built("linear", 3)
    total = ClippedSum(objective(model, x, y), RADIUS, 2, 2.0, 2)
    with pytest.raises(ValueError, match="persons has 3 persons; allowed: at most most_rows = 2"):
        total(x, y, torch.arange(3))


def test_all_widths_are_tried_again(monkeypatch):
    monkeypatch.setattr(clipped_sum, "TRIED_EVERY", 1)
    model, x, y, persons = crowd("linear")
    total, tried = summed(model, x, y), []
    original = trial.Trial.choose_person_way
    monkeypatch.setattr(
        trial.Trial,
        "choose_person_way",
        lambda self, way, width: tried.append(width) or original(self, way, width),
    )
    total(x, y, persons), total(x, y, persons)
    assert tried == [2, 4, 8]
