"""The table of local training without privacy: what it gives for every size."""

import pytest

from node.task.plain_defaults import plain_defaults, power_of_two

LINEAR, MLP = "node.models:Linear", "node.models:MLP"


@pytest.mark.parametrize(
    ("model", "width", "rate"),
    [
        (LINEAR, 1, 0.03),
        (LINEAR, 100, 0.03),
        (LINEAR, 300, 0.01),
        (LINEAR, 1_000_000, 0.001),
        (MLP, 100, 0.003),
        (MLP, 1000, 0.003),
        (MLP, 2000, 0.002),
        ("somebody:Net", 1_000_000, 0.001),
    ],
)
def test_a_rate_by_model_and_width(model, width, rate):
    assert plain_defaults(model, width, 5000, 20).learning_rate == rate


@pytest.mark.parametrize(
    ("rows", "rounds", "batch", "epochs"),
    [(1, 20, 8, 10), (38, 20, 8, 2), (200, 20, 8, 1), (2000, 20, 32, 1), (50_000, 20, 64, 1), (200, 2, 8, 4)],
)
def test_batches_by_rows_and_enough_steps(rows, rounds, batch, epochs):
    found = plain_defaults(MLP, 10, rows, rounds)
    assert (found.batch_size, found.epochs) == (batch, epochs)
    assert (found.optimizer, found.schedule) == ("adam", "cosine")


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1.5, 1, 1), (True, 1, 1)])
def test_sizes_are_counted(sizes):
    with pytest.raises(ValueError, match="is not allowed: a whole number of 1 and more"):
        plain_defaults(MLP, *sizes)


def test_powers_of_two():
    assert [power_of_two(wanted, 8, 64) for wanted in (0, 9, 16, 31.9, 1e9)] == [8, 8, 16, 16, 64]
