"""Sums of clipped gradients: what they are, how far a row moves what is computed, which method is chosen."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients import blocks, trial
from mechanisms.gradients.blocks import Way, block_rows, lanes_of, places_of
from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.layers import Outer, gamma
from mechanisms.noise.clipping import NotFinite
from tests.unit.mechanisms.gradients.models import (
    MODELS,
    Text,
    built,
    clipped_one_by_one,
    cross_entropy,
    objective,
)
from tests.unit.mechanisms.settings import refused

RADIUS = 0.3
MOST = 100_000


def summed(model, x, y, *, radius=RADIUS, expected=4.0, parameters=None, loss=cross_entropy, most=MOST):
    return ClippedSum(objective(model, x, y, parameters, loss), radius, most, expected)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("radius", "rows"), [(0.05, 5), (RADIUS, 40), (1000.0, 5)])
def test_the_sum_is_that_of_gradients_clipped_one_by_one(kind, radius, rows):
    model, x, y = built(kind, rows)
    found = summed(model, x, y, radius=radius)
    batch = found(x, y)
    expected = clipped_one_by_one(model, x, y, radius)
    assert found.method == "book-keeping"
    assert batch.vector == pytest.approx(expected, rel=1e-4, abs=1e-6 * rows * min(radius, 1))
    assert batch.stays.mean_loss == pytest.approx(functional.cross_entropy(model(x), y).item(), rel=1e-5)
    assert batch.stays.not_finite == 0
    assert all(parameter.grad is None for parameter in model.parameters())
    none = found(x[:0], y[:0])
    assert (none.stays.mean_loss, none.stays.not_finite) == (0, 0)
    assert np.array_equal(none.vector, np.zeros(len(expected)))


def shift(total, x, y, row):
    """How far `row` moves the sum, and how far beyond its own clipped gradient; both L2, in units of C."""
    others = [number for number in range(len(x)) if number != row]
    difference = total(x, y).vector - total(x[others], y[others]).vector
    own = total(x[row : row + 1], y[row : row + 1]).vector
    return np.linalg.norm(difference) / RADIUS, np.linalg.norm(difference - own) / RADIUS


def allowed(total, x, y):
    """Twice the error of a sum, as in the module's proof, for B = 150, in units of C."""
    found = total._ways[1].method(x[:1], y[:1])[0].values()
    terms = total.block_rows * max(part.terms for part in found) + total._ways[1].most_blocks(MOST) + 8
    return 2 * gamma(terms) * 150 * max(part.ratio for part in found)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 33, 65, 150])
def test_a_row_moves_the_sum_by_no_more_than_the_radius(kind, rows):
    """Neighbouring batches at and beside the ends of blocks; the row in front shifts all others."""
    model, x, y = built(kind, rows)
    total = summed(model, x, y)
    for row in {0, rows // 2, rows - 1}:
        moved, beyond = shift(total, x, y, row)
        assert moved <= 1
        assert beyond <= allowed(total, x, y)


@pytest.mark.parametrize("kind", ["linear", "layer norm"])
def test_blocks_without_lanes_are_caught(kind):
    """Planted: on a machine where places matter, a row that moves the others along moves their gradients."""
    model, x, y = built(kind, 40)
    total = summed(model, x, y)
    if total._ways[1].lanes == 1:
        pytest.skip("on this machine places do not matter for this model")
    total._ways[1] = replace(total._ways[1], lanes=1)
    assert max(shift(total, x, y, row)[1] for row in range(3)) > allowed(total, x, y)


def test_float32_sums_are_caught(monkeypatch):
    """Planted: matrix products in float32 move the sum beyond what is proved for float64."""
    model, x, y = built("linear", 150)
    total = summed(model, x, y, expected=150.0)

    def in_float32(self, total, weights):
        product = (self.outputs * weights.unsqueeze(1)).T.float() @ self.inputs.float()
        total += product.double().reshape(-1)

    monkeypatch.setattr(Outer, "add_to", in_float32)
    assert shift(total, x, y, 0)[1] > allowed(total, x, y)


def test_a_norm_that_is_too_small_is_caught():
    """Planted: without its bias in the norm a row is clipped to more than the radius."""
    model, x, y = built("linear", 20)
    x *= 0.01
    total = summed(model, x, y)
    assert max(shift(total, x, y, row)[0] for row in range(3)) <= 1
    method = total._ways[1].method

    class Unmeasured:
        def __init__(self, part) -> None:
            self.part, self.add_to = part, part.add_to

        def squares(self):
            return torch.zeros_like(self.part.squares())

    def forgetful(x, y):
        found, losses = method(x, y)
        return {name: Unmeasured(part) if "bias" in name else part for name, part in found.items()}, losses

    total._ways[1] = replace(total._ways[1], method=forgetful)
    assert max(shift(total, x, y, row)[0] for row in range(3)) > 1


def test_the_clip_is_shrunk_by_what_rounding_may_add():
    """C' = C / (1 + nu + 2 gamma_N B rho): more rows and longer sequences leave less."""
    for kind, terms, ratio in (("group norm", 1, 1), ("text", 6, 2**8)):
        model, x, y = built(kind, 2)
        few, many = (summed(model, x, y, most=most) for most in (100, 10**6))
        assert RADIUS * (1 - 2**-12) < few._clip < RADIUS
        assert many._clip < few._clip
        found = many._ways[1].method(x, y)[0]
        nu = 2.0**-40 + max(part.norm_error() for part in found.values())
        added = gamma(many.block_rows * terms + many._ways[1].most_blocks(10**6) + 8)
        assert many._clip == pytest.approx(RADIUS / (1 + nu + 2 * added * 10**6 * ratio), rel=1e-12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", [kind for kind in MODELS if MODELS[kind][1] is not None])
def test_a_row_whose_gradient_is_not_finite_counts_as_zero(kind, bad):
    model, x, y = built(kind, 9)
    total = summed(model, x, y)
    rest = [0, 1, 2, 4, 5, 7, 8]
    expected = total(x[rest], y[rest])
    x[3].view(-1)[1] = x[6].view(-1)[0] = bad
    batch = total(x, y)
    assert batch.stays.not_finite == 2
    assert np.linalg.norm(batch.vector - expected.vector) < 1e-12
    assert np.isfinite(batch.vector).all()
    assert np.isfinite(batch.stays.mean_loss)


def test_rows_that_fill_a_block_may_be_anything():
    """A model that divides by its input has no gradient at the zeros of the padding."""
    model = nn.Sequential(Divided(), nn.Linear(5, 3))
    x, y = torch.rand(3, 5) + 1, torch.tensor([0, 1, 2])
    batch = summed(model, x, y)(x, y)
    assert batch.vector == pytest.approx(clipped_one_by_one(model, x, y, RADIUS), rel=1e-4)
    assert batch.stays.not_finite == 0


def test_a_model_that_has_diverged_stops_training_and_huge_gradients_are_clipped():
    model, x, y = built("linear", 3)
    batch = summed(model, x[:1], y[:1], loss=lambda o, t: cross_entropy(o, t) * 1e35)(x[:1], y[:1])
    assert np.linalg.norm(batch.vector) == pytest.approx(RADIUS, rel=1e-5)
    total = summed(model, x, y)
    with torch.no_grad():
        model[0].weight[0, 0] = float("nan")
    with pytest.raises(NotFinite, match="a parameter of the model is NaN or infinite"):
        total(x, y)
    with torch.no_grad():
        model[0].weight.fill_(3e38)  # finite, though their sum is not
    total(x, y)


class Gate(nn.Module):
    """A parameter of its own: no layer has it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.ones(5))
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x * self.gate)


class Divided(nn.Module):
    def forward(self, x):
        return 1 / x


class Leaking(nn.Module):
    """As on a machine whose products depend on the rows beside."""

    def forward(self, x):
        return x * (1 + 1e-6 * x.detach().mean())


class Shared(nn.Module):
    """Uses a layer's weight beside the layer: no hook sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x) + functional.linear(x**2, self.layer.weight)


class Mixed(nn.Module):
    """Keeps rows apart, but has the rows of the batch second in between."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.layer(torch.stack([x, x]))[0])


class Attended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


def reversing() -> nn.Module:
    """A gradient of the right length in another direction: no hook sees the replaced forward pass."""
    layer = nn.Linear(5, 3)
    layer.forward = lambda inputs: functional.linear(inputs.flip(1), layer.weight, layer.bias)
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    ("make", "shape", "said"),
    [
        (Gate, (5,), "Gate has no rule of its own"),
        (Shared, (5,), "it disagrees with the gradients of single rows"),
        (reversing, (5,), "it disagrees with the gradients of single rows"),
        (Mixed, (5,), "vmap"),
        (Attended, (3, 4), "MultiheadAttention has no rule of its own"),
        (lambda: nn.Sequential(Leaking(), nn.Linear(5, 3)), (5,), "rows of a block are not independent"),
    ],
)
def test_what_has_no_rule_or_disagrees_is_computed_in_full(make, shape, said):
    model, x, y = make(), torch.randn(33, *shape), torch.arange(33) % 3
    total = summed(model, x, y)
    assert total.method.startswith("each row in full (vmap), as book-keeping does not fit: ")
    assert said in total.method
    if make is Gate or "independent" in said:
        for rows in (1, 17, 33):
            moved, beyond = shift(total, x[:rows], y[:rows], 0)
            assert moved <= 1
            assert beyond < 1e-12
    if "independent" not in said:
        assert total(x, y).vector == pytest.approx(
            clipped_one_by_one(model, x, y, RADIUS), rel=1e-4, abs=1e-6
        )
    rest = total(x[1:], y[1:]).vector
    x[0].view(-1)[0] = float("nan")
    batch = total(x, y)
    assert batch.stays.not_finite == 1
    assert np.linalg.norm(batch.vector - rest) < 1e-12


class Peeking(nn.Linear):
    def forward(self, x):
        return super().forward(x) * (2 if x.sum().item() > -1e6 else 1)


class Padded(Text):
    """torch's vmap takes `padding_idx` for the first row of a block only."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, words):
        return self.scale * super().forward(words)


@pytest.mark.parametrize(
    ("make", "x", "said"),
    [
        (lambda: Peeking(5, 3), torch.randn(9, 5), r"each row by itself, as vmap fails: .*\.item\(\)"),
        (
            Padded,
            torch.randint(0, 3, (9, 6)),
            "as Padded has no rule of its own; vmap: it disagrees with the grad",
        ),
    ],
)
def test_what_decides_by_the_values_of_a_batch_or_is_wrong_in_vmap_is_computed_row_by_row(make, x, said):
    """Hooks would not notice it, and stand-ins might all take the same way."""
    model, y = make(), torch.arange(9) % 3
    total = summed(model, x, y)
    assert total.method.startswith("each row by itself, as ")
    assert re.search(said, total.method, re.DOTALL)
    assert total(x, y).vector == pytest.approx(clipped_one_by_one(model, x, y, RADIUS), rel=1e-4, abs=1e-6)
    assert shift(total, x, y, 0)[0] <= 1


def test_where_even_that_does_not_help_rows_are_taken_one_by_one(monkeypatch):
    model, x, y = built("linear", 9)
    monkeypatch.setattr(trial.Trial, "_is_independent", lambda *_: False)
    total = summed(model, x, y)
    assert total.block_rows == 1
    apart = "rows of a block are not independent"
    assert total.method == f"each row by itself, as {apart}; vmap: {apart}"
    assert total(x, y).vector == pytest.approx(clipped_one_by_one(model, x, y, RADIUS), rel=1e-4, abs=1e-6)


def test_one_thread_is_the_last_resort_and_is_not_for_others(monkeypatch):
    """Where threads cut tensors at places that depend on nothing but their number."""
    model, x, y = built("linear", 9)
    used, original = [], trial.Trial._is_independent
    only_alone = lambda self, way, width: way.one_thread and original(self, way, width)  # noqa: E731
    monkeypatch.setattr(trial.Trial, "_is_independent", only_alone)
    torch.set_num_threads(3)
    total = summed(model, x, y)
    method = total._ways[1].method

    def noting(x, y):
        used.append(torch.get_num_threads())
        return method(x, y)

    total._ways[1] = replace(total._ways[1], method=noting)
    total(x, y)
    assert torch.get_num_threads() == 3
    assert (total.method, total._ways[1].lanes, set(used)) == ("book-keeping", 16, {1})


@pytest.mark.parametrize(("width", "made"), [(7, torch.randn), (8, torch.rand), (11, torch.rand)])
def test_lanes_follow_from_the_row_alone_and_are_about_equally_full(width, made):
    """Of floats, and of rows of bytes: 8 are one word, 11 are not."""
    x = made(4000, width, generator=torch.Generator().manual_seed(0))
    x = x if made is torch.randn else x > 0.5
    lanes = lanes_of(x, 16)
    assert torch.equal(lanes_of(x.flip(0), 16), lanes.flip(0))
    assert torch.equal(lanes_of(x[5:6], 16), lanes[5:6])
    least, most = 180 if made is torch.randn else 1, 320 if made is torch.randn else 4000
    assert least <= int(lanes.bincount(minlength=16).min()) <= int(lanes.bincount(minlength=16).max()) < most
    assert not lanes_of(x, 1).any()


def test_lanes_are_those_of_the_hash_in_plain_numbers_and_places_are_in_order_and_sixteen_apart():
    x = torch.randn(300, 5, generator=torch.Generator().manual_seed(1))
    factors = [int(factor) for factor in blocks._hash_factors(5)]
    for row, lane in zip(x.numpy(), lanes_of(x, 16).tolist(), strict=True):
        sums = sum(int(word) * factor for word, factor in zip(row.view("int32"), factors, strict=True))
        assert (sums >> 32) % 16 == lane
    lanes = torch.tensor([3, 0, 3, 3, 15, 0])
    assert places_of(lanes, 16).tolist() == [3, 0, 19, 35, 15, 16]
    assert places_of(torch.zeros_like(lanes), 1).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("lanes", [1, 16])
def test_blocks_hold_each_row_once_and_zeros_elsewhere(lanes):
    x = torch.randn(70, 3, generator=torch.Generator().manual_seed(1))
    way = Way(method=lambda x, y: ({}, x), rows=32, lanes=lanes, one_thread=False)
    found = [(*block.rows, block.taken) for block in way.blocks(x, torch.arange(70))]
    assert all(placed.shape == (32, 3) for placed, _, _ in found)
    assert sorted(int(y) for _, numbers, taken in found for y in numbers[taken]) == list(range(70))
    assert all(torch.equal(placed[taken], x[numbers[taken]]) for placed, numbers, taken in found)
    assert not any(placed[~taken].any() for placed, _, taken in found)
    assert len(found) <= way.most_blocks(70)
    assert list(way.blocks(x[:0], torch.arange(0))) == []


@pytest.mark.parametrize(
    ("of_words", "way"),
    [
        (lambda _: 1, "book-keeping"),
        (lambda words: 1 + words.max(), "disagrees"),
        (lambda words: 2 if (words == 0).any() else 1, "a mask of it is full"),
    ],
)
def test_stand_ins_are_numbers_of_words_for_models_that_look_them_up(of_words, way):
    """Zeros alone would not show that a row's outputs depend on the other rows' words."""

    class Looked(Text):
        def forward(self, x):
            return super().forward(x.long()) * of_words(x.long())

    x, y = torch.full((4, 6), 0.01), torch.arange(4) % 3
    assert way in summed(Looked(), x, y).method
    with pytest.raises((IndexError, RuntimeError)):
        summed(nn.Sequential(nn.Flatten(), nn.Linear(7, 3)), x, y)


def test_stand_ins_for_targets_that_are_numbers():
    def squared(outputs, targets):
        return functional.mse_loss(outputs.reshape(targets.shape), targets)

    model, x, y = nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)), torch.randn(6, 5), torch.randn(6)
    total = summed(model, x, y, loss=squared)
    assert total.method == "book-keeping" or "vmap" in total.method
    assert total(x, y).vector == pytest.approx(clipped_one_by_one(model, x, y, RADIUS, squared), rel=1e-4)


@pytest.mark.parametrize(
    ("expected", "elements", "rows"),
    [(256, 900, 288), (4096, 900, 480), (1, 900, 16), (256, 30_000, 64), (256, 2**24, 1), (20, 2**22, 4)],
)
def test_blocks_stay_in_the_cache_and_are_mostly_full(expected, elements, rows):
    """256 rows of a perceptron: one block, with room for a batch that is a little longer."""
    assert block_rows(expected, elements) == rows
    assert block_rows(256, 900, lanes=16) == 384, "lanes need more room"


@pytest.mark.parametrize("elements", [2**24 / 5, 2**24 / 7, 2**24 / 13, 2**24 / 15, 2**24 / 100])
def test_a_lane_has_one_place_in_every_block(elements):
    """Modulo 16, or modulo a shorter block: else its rows would be at places that no trial compared."""
    rows = block_rows(1000, elements, lanes=16)
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    places = places_of(lanes_of(x, 16), 16) % rows
    for lane in range(16):
        assert len(set((places[lanes_of(x, 16) == lane] % 16).tolist())) == 1


def test_bad_arguments_are_named():
    model, x, y = built("linear", 4)
    refused(lambda radius: summed(model, x, y, radius=radius), radius=0.0)
    refused(lambda most_rows: summed(model, x, y, most=most_rows), most_rows=0)
    refused(lambda expected_rows: summed(model, x, y, expected=expected_rows), expected_rows=0.0)
    with pytest.raises(ValueError, match="parameters is empty"):
        summed(model, x, y, parameters={})
    doubles = {"0.bias": nn.Parameter(torch.zeros(4, dtype=torch.float64))}
    with pytest.raises(TypeError, match=r"parameter '0.bias' holds torch.float64; allowed: torch.float32"):
        summed(model, x, y, parameters=doubles)
    with pytest.raises(ValueError, match="x has 4 rows; allowed: at most most_rows = 3"):
        summed(model, x, y, most=3)(x, y)
