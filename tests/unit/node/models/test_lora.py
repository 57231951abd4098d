"""Low-rank adapters: what is trained, that means are exact, and that nothing computes around them."""

import copy

import pytest
import torch
from torch import nn

from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.trial import BOOK_KEEPING
from node.models import with_adapters
from node.task.sections import ModelSection
from node.training.build import make
from tests.own_models import Adapted
from tests.unit.mechanisms.gradients.models import clipped_one_by_one, objective


def weights(model):
    """The weight of each adapted layer as one matrix."""
    layers = [layer for layer in model.modules() if hasattr(layer, "lora_B")]
    return [layer.weight + layer.scaling * layer.lora_B.weight @ layer.lora_A for layer in layers]


def test_a_model_answers_as_before_and_only_one_factor_is_trained():
    plain = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3, bias=False))
    rows, names = torch.randn(4, 7, 6), list(plain.state_dict())
    adapted = with_adapters(copy.deepcopy(plain), rank=2)
    assert torch.equal(adapted(rows), plain(rows))
    trained = [name for name, value in adapted.named_parameters() if value.requires_grad]
    assert trained == ["0.lora_B.weight", "2.lora_B.weight"]
    assert set(names) < set(adapted.state_dict())  # a file of weights still fits
    nn.init.normal_(adapted[0].lora_B.weight)
    assert torch.allclose(adapted[0](rows), nn.functional.linear(rows, weights(adapted)[0], plain[0].bias))


def test_the_mean_of_the_trained_factors_is_the_mean_of_the_weights():
    members = [copy.deepcopy(Adapted()) for _ in range(4)]
    for member in members[1:]:
        member.load_state_dict(members[0].state_dict())
    for member in members:
        for layer in (member.body.linear1, member.body.linear2):
            nn.init.normal_(layer.lora_B.weight)
    mean = copy.deepcopy(members[0])
    for name, value in mean.named_parameters():
        if value.requires_grad:
            value.data = torch.stack([member.get_parameter(name) for member in members]).mean(0)
    for found, *of_members in zip(weights(mean), *map(weights, members), strict=True):
        assert torch.allclose(found, torch.stack(of_members).mean(0), atol=1e-6)


def test_no_fast_path_computes_around_the_adapters():
    model, rows = Adapted().eval(), torch.randn(3, 64)
    before = model(rows)
    nn.init.normal_(model.body.linear2.lora_B.weight)
    with torch.inference_mode():
        assert not torch.allclose(model(rows), before)


@pytest.mark.parametrize(
    ("layers", "rank", "complaint"),
    [
        ("none*", 2, "matches no linear layer"),
        ("*", 4, "rank = 4 is refused for the layer 1; allowed: 1 to 3"),
    ],
)
def test_layers_and_ranks_that_do_not_fit(layers, rank, complaint):
    with pytest.raises(ValueError, match=complaint):
        with_adapters(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)), layers, rank)


@pytest.mark.filterwarnings("ignore")  # of transformers about itself
@pytest.mark.parametrize("kind", ["Bert", "GPT2"])
def test_adapters_of_language_models_are_drawn_by_the_seed_and_have_gradients_of_rows(kind):
    """Of peft in BERT, and of `with_adapters` in GPT-2, whose linear layers are those of transformers."""
    pytest.importorskip("peft")
    pytest.importorskip("transformers")
    section = ModelSection("tests.own_models:LanguageModel", {"kind": kind})
    model, other = make(section, 7), make(section, 7)
    assert all(map(torch.equal, model.state_dict().values(), other.state_dict().values()))
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    assert sum("lora_B" in name for name in trained) == len(trained) - 2 == 2
    for value in trained.values():
        nn.init.normal_(value)
    x, y = torch.randint(1, 32, (5, 6)).float(), torch.randint(0, 10, (5,))
    x[:3, 4:] = 0
    summed = ClippedSum(objective(model, x, y), 0.3, 100, 5)
    assert summed.method == BOOK_KEEPING
    assert summed(x, y).vector == pytest.approx(clipped_one_by_one(model, x, y, 0.3), rel=1e-4, abs=1e-6)
