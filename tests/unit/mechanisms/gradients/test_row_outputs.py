"""Outputs of a body: each row's follow from it alone, to the last bit."""

import pytest
import torch
from torch import nn

from mechanisms.gradients import row_outputs
from mechanisms.gradients.blocks import Layout
from mechanisms.gradients.row_outputs import RowOutputs
from mechanisms.gradients.side_effects import NotByRow


class Leaking(nn.Module):
    """As on a machine whose products depend on the rows beside, by less than rounding shows."""

    def forward(self, x):
        return x * (1 + 1e-6 * x.mean())


class Rounded(nn.Module):
    """As on a machine where places matter: lanes of 16 keep a row's bits, other places do not."""

    def forward(self, x):
        return x + 1e-6 * (torch.arange(len(x), dtype=x.dtype) % 16).unsqueeze(1)


class Threaded(nn.Module):
    """As on a machine whose threads cut a tensor at places."""

    def forward(self, x):
        return x + 1e-6 * torch.arange(len(x)).unsqueeze(1) * (torch.get_num_threads() > 1)


class Looked(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2, 3)

    def forward(self, x):
        return self.words(x.long()).flatten(1)


CONV = nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.Flatten(), nn.BatchNorm1d(8))


@pytest.mark.parametrize(
    ("module", "lanes", "one_thread"),
    [
        (nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3)), None, None),
        (CONV, None, None),
        (Looked(), 1, False),
        (Rounded(), 16, False),
        (Threaded(), 16, True),
        (Leaking(), 1, True),  # a row at a time
    ],
)
def test_a_row_has_the_same_bits_whatever_rows_there_are_and_wherever_it_stands(
    module, lanes, one_thread, monkeypatch
):
    monkeypatch.setattr(row_outputs, "_AT_ONCE", 100)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    x = torch.rand(150, 6)
    outputs = RowOutputs(module, x[:1])
    assert torch.get_num_threads() == 2
    assert lanes is None or (outputs.layout.lanes, outputs.layout.one_thread) == (lanes, one_thread)

    def found(rows):
        return torch.cat([*outputs(rows)])

    whole = found(x)
    assert torch.equal(found(x[1:]), whole[1:])
    assert torch.equal(found(x[7:8]), whole[7:8])
    order = torch.randperm(len(x))
    assert torch.equal(found(x[order]), whole[order])
    assert torch.allclose(whole, module.eval()(x), atol=1e-3)
    assert outputs.layout.rows == (1 if isinstance(module, Leaking) else 32)


def test_blocks_by_places_are_caught():
    """Planted: without lanes, where places matter, the first row moves the bits of all others."""
    outputs = RowOutputs(Rounded(), torch.ones(1, 3))
    outputs.layout = Layout(rows=32, lanes=1, one_thread=False)
    x = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(torch.cat([*outputs(x[1:])]), torch.cat([*outputs(x)])[1:])


def test_layers_keep_their_modes_and_what_answers_pairs_is_not_blamed():
    class Paired(nn.Module):
        def forward(self, x):
            return x, x

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.paired, self.shifted = Paired(), nn.Sequential(nn.Identity())

        def forward(self, x):
            one, other = self.paired(self.shifted(x))
            return one + other.roll(1, 0)

    model = Both()
    model.shifted.eval()
    with pytest.raises(NotByRow, match="Both mixes rows"):
        RowOutputs(model, torch.ones(1, 3))
    assert [layer.training for layer in model.modules()] == [True, True, False, False]
    assert not any(layer._forward_hooks for layer in model.modules())


def test_a_layer_that_refuses_a_single_row_mixes_rows():
    body = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, track_running_stats=False))
    with pytest.raises(NotByRow, match=r"layer '1' \(BatchNorm1d\) mixes rows"):
        RowOutputs(body, torch.ones(1, 3))


def test_few_rows_are_tried():
    """A trial at each start: three rows alone, and five blocks."""
    passed = []

    class Noted(nn.Module):
        def forward(self, x):
            passed.append(len(x))
            return x

    RowOutputs(Noted(), torch.ones(1, 3))
    assert passed == [32, 1, 1, 1, 32, 32, 32, 32]
