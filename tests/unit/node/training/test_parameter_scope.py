"""What is trained, shared and kept: parameters, running statistics, buffers, weight files."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.noise.randomness import SystemWords
from node.data.dataset import Dataset
from node.task.load import load_task
from node.task.parameters import canonical_parameters, describe_difference
from node.training.batch_norm import BatchNorms
from node.training.build import build_model
from node.training.gradient_steps import steps_by
from node.training.initial_weights import load_weights, loaded_names
from node.training.local_tensors import own_words
from node.training.trainer import Diverged, Interrupted, Trainer, shapes
from tests.own_data import told
from tests.own_models import Normed, Remembering, Tied, WithBody
from tests.unit.node.cases import cases

NEVER = threading.Event()
OWN = "model.class=tests.own_models:"
BODY = (f"{OWN}WithBody", "model.args={}", "train.epochs=1")
HEAD = (*BODY, "train.parameters=head.*")
RULE = GradientRule(1.0, 1.0, 0.1)


def trainer(dataset: Dataset, *overrides: str, rule: GradientRule | None = None) -> tuple[Trainer, nn.Module]:
    task = load_task("digits", overrides)
    model = build_model(task, dataset)
    return Trainer(model, task.train, dataset, 0, steps_by(rule, SystemWords())), model


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def moved(before: dict[str, torch.Tensor], model: nn.Module) -> set[str]:
    return {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


def test_what_no_pattern_matches_stays_as_it_began(dataset):
    subject, model = trainer(dataset, *HEAD)
    before = state(model)
    subject.evaluate(subject.train(subject.vector(), 1, NEVER).vector)
    assert moved(before, model) == {"head.weight", "head.bias"}
    assert [name for name, _ in shapes(model, "head.*")] == ["head.weight", "head.bias"]


@pytest.mark.parametrize("rule", [None, RULE])
def test_local_parameters_are_trained_and_not_shared(dataset, rule):
    subject, model = trainer(dataset, "train.parameters=layers.2.*", "train.local=layers.0.weight", rule=rule)
    before, vector = state(model), subject.vector()
    trained = subject.train(vector, 1, NEVER).vector
    assert moved(before, model) == {"layers.0.weight", "layers.2.weight", "layers.2.bias"}
    assert trained.shape == (64 * 10 + 10,)
    assert subject.own_names == ("layers.0.weight",)
    both, _ = trainer(dataset, "train.parameters=layers.2.*", "train.local=*")
    assert both.own_names == ("layers.0.weight", "layers.0.bias"), "what both patterns match is shared"
    kept = model.layers[0].weight.detach().clone()
    subject.evaluate(vector)
    assert torch.equal(model.layers[0].weight, kept)


def agreed(dataset, *overrides):
    subject, model = trainer(dataset, *overrides)
    task = load_task("digits", overrides)
    named = shapes(model, task.train.parameters)
    return canonical_parameters(task, named, 4.0, subject.digests(loaded_names(task.model)))


def test_a_local_pattern_that_matches_nothing_else(dataset):
    assert told(trainer, dataset, "train.local=layers.*") == (
        "train.local = 'layers.*' matches none of the model's parameters that are not shared; these "
        "are: 'none'"
    )
    assert "these are: 'body.0.weight, body.0.bias" in told(trainer, dataset, *HEAD, "train.local=neck.*")


@pytest.mark.parametrize(
    "overrides",
    [("train.parameters=layers.2.*", "train.local=layers.0.*"), (f"{OWN}Remembering", "model.args={}")],
)
def test_a_training_that_is_broken_off_or_diverges_leaves_nothing_in_what_is_a_node_s_own(
    dataset, stop_at_third, overrides
):
    subject, model = trainer(dataset, *overrides)
    before, vector = state(model), subject.vector()
    with pytest.raises(Interrupted):
        subject.train(vector, 1, stop_at_third)
    assert not moved(before, model) & set(subject.own_names)
    with pytest.raises(Diverged):
        subject.train(np.full_like(vector, np.nan), 1, NEVER)
    assert not moved(before, model) & set(subject.own_names)


def test_own_tensors_go_on_after_a_restart(dataset):
    overrides = ("train.parameters=layers.2.*", "train.local=layers.0.weight")
    subject, model = trainer(dataset, *overrides)
    vector = subject.train(subject.vector(), 1, NEVER).vector
    again, other = trainer(dataset, *overrides)
    again.resume(subject.tensors(vector))
    assert torch.equal(other.layers[0].weight, model.layers[0].weight)
    again.resume({"layers.0.weight": np.zeros((3, 3), np.float32)})
    assert torch.equal(other.layers[0].weight, model.layers[0].weight), "of another shape: from another model"


def test_statistics_are_estimated_for_whatever_is_evaluated_from_own_training_rows(dataset):
    normed = (f"{OWN}Normed", "model.args={}")
    subject, model = trainer(dataset, *normed)
    start = subject.vector()
    trained = subject.train(start, 1, NEVER).vector
    first = subject.evaluate(start)
    layer = model.layers[1]
    assert subject.own_names == tuple(
        f"layers.1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")
    )
    with torch.no_grad():
        features = model.layers[0](dataset.train_x)
    assert torch.allclose(layer.running_mean, features.mean(0), atol=1e-5)
    assert torch.allclose(layer.running_var, features.var(0), rtol=1e-4)
    assert (layer.num_batches_tracked.item(), layer.momentum) == (1, 0.1)
    subject.evaluate(trained)
    assert subject.evaluate(start) == first, "nothing is left of what was evaluated in between"
    on_train_rows, _ = trainer(replace(dataset, test_x=dataset.train_x, test_y=dataset.train_y), *normed)
    assert subject.own_loss(start) == on_train_rows.evaluate(start).loss


def test_statistics_of_many_rows_are_the_mean_over_batches_of_nearly_one_size():
    torch.manual_seed(3)
    model = nn.Sequential(nn.BatchNorm1d(2))
    rows = torch.randn(2500, 2) * 3 + 1
    BatchNorms(model).estimate(rows)
    parts = torch.tensor_split(rows, 3)
    mean, var = (
        torch.stack(each).mean(0) for each in zip(*((p.mean(0), p.var(0)) for p in parts), strict=True)
    )
    assert torch.allclose(model[0].running_mean, mean, atol=1e-5)
    assert torch.allclose(model[0].running_var, var, rtol=1e-4)
    before = model[0].running_mean.clone()
    BatchNorms(model).estimate(rows[:1])
    assert torch.equal(model[0].running_mean, before), "a single row has no variance"
    one = nn.Sequential(nn.BatchNorm1d(1))
    BatchNorms(one).estimate(torch.arange(40_000, dtype=torch.float32)[:, None])
    assert one[0].num_batches_tracked.item() == 16, "at most so many rows are looked at, evenly taken"
    assert one[0].running_mean.item() == pytest.approx(20_000, rel=0.001)


def test_dropout_is_off_while_statistics_are_estimated():
    model = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(2))
    rows = torch.ones(10, 2)
    state = torch.get_rng_state()
    BatchNorms(model).estimate(rows)
    assert torch.equal(torch.get_rng_state(), state)
    assert model[1].running_mean.tolist() == [1.0, 1.0]
    assert not model.training


@pytest.mark.parametrize("rule", [None, RULE])
def test_a_layer_that_is_not_trained_keeps_its_statistics(dataset, rule):
    subject, model = trainer(dataset, *HEAD, rule=rule)
    before = state(model)
    subject.evaluate(subject.train(subject.vector(), 1, NEVER).vector)
    assert not {name for name in moved(before, model) if "body" in name}
    assert subject.own_names == ()
    BatchNorms(model).begin_training()
    assert (model.body[1].training, model.head.training) == (False, True)


def test_a_layer_without_parameters_goes_with_what_stands_beside_it():
    model = nn.Sequential(
        nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)),
        nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)),
    )
    model[0].requires_grad_(False)
    norms = BatchNorms(model)
    assert {name.rpartition(".")[0] for name in norms.fixed_statistics} == {"0.1"}
    assert {name.rpartition(".")[0] for name in norms.estimated_statistics} == {"1.1"}


def test_batch_norm_that_is_trained_has_no_private_steps(dataset):
    line = told(lambda: trainer(dataset, *BODY, rule=RULE))
    assert line == (
        "model.class: privacy.mechanism = 'dp-sgd' needs the gradient of each row: layer 'body.1' "
        "(BatchNorm1d) takes its statistics from the batch: no row has a gradient of its own; allowed: "
        "nn.GroupNorm or nn.LayerNorm, or batch norm that is not trained"
    )


def test_other_buffers_stay_with_the_node_as_training_leaves_them(dataset):
    remembering = (f"{OWN}Remembering", "model.args={}")
    subject, model = trainer(dataset, *remembering)
    before = state(model)
    vector = subject.train(subject.vector(), 1, NEVER).vector
    assert moved(before, model) >= {"centre", "steps"}
    assert subject.own_names == ("centre", "steps", "used")
    kept = subject.tensors(vector)
    subject.evaluate(vector)
    kinds = {"centre": "float32", "steps": "int64", "used": "bool"}
    weights = dict.fromkeys(("layer.weight", "layer.bias"), "float32")
    assert {name: part.dtype.name for name, part in kept.items()} == kinds | weights
    again, other = trainer(dataset, *remembering)
    again.resume(kept)
    assert torch.equal(other.centre, model.centre)
    assert other.steps == model.steps > 0


def test_the_owner_is_told_what_stays_and_where_it_trains():
    assert own_words((), "cpu") == {}
    assert own_words(("body.1.running_mean",), "cuda:0") == {
        "device": "cuda:0",
        "stays here": "'body.1.running_mean'; model.safetensors holds them too, so look at docs/models.md "
        "before you give it away",
    }


def test_a_whole_model_has_the_vector_that_is_asked_for(dataset):
    subject, _ = trainer(dataset, "model.class=tests.own_models:Tied", "model.args={}")
    vector = np.arange(64 * 64 + 650, dtype=np.float32)
    subject.evaluate(np.zeros_like(vector))
    whole = subject.tensors(vector)
    assert set(whole) == set(Tied().state_dict())
    for name in ("one.weight", "two.weight"):
        assert np.array_equal(whole[name].ravel(), vector[: 64 * 64])
    assert np.array_equal(whole["head.bias"], vector[-10:])


@cases("""
    name => line
    Lazy => model tests.own_models:Lazy: layer.weight has no shape before it has seen rows (a lazy layer), and
        would not be drawn under task.seed; give the layer its sizes
    Brainy => model tests.own_models:Brainy: buffer scale is torch.bfloat16 on cpu; allowed: plain numbers on
        cpu
""")
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_tensors_that_can_not_be_kept(dataset, name, line):
    assert told(trainer, dataset, f"model.class=tests.own_models:{name}", "model.args={}") == line


@pytest.fixture
def weights(tmp_path):
    def write(tensors, name="body.safetensors"):
        path = tmp_path / name
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        return path

    return write


def body(seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    model = WithBody()
    model.body[1].running_mean += seed
    return {name: value for name, value in model.state_dict().items() if name.startswith("body.")}


def test_a_model_begins_with_a_file_of_a_part_of_it_and_the_rest_is_drawn(dataset, weights):
    part = body(5)
    path = weights({**part, "body.0.bias": part["body.0.bias"].half()})
    task = load_task("digits", [*HEAD, f"model.weights={path}"])
    model, drawn = build_model(task, dataset), build_model(load_task("digits", list(HEAD)), dataset)
    assert torch.equal(model.body[0].weight, part["body.0.weight"])
    assert torch.equal(model.body[0].bias, part["body.0.bias"].half().float())
    assert torch.equal(model.head.weight, drawn.head.weight)
    assert set(loaded_names(task.model)) == set(part)


def test_peers_with_the_same_tensors_agree_wherever_the_file_is_and_with_others_not(dataset, weights):
    one = agreed(dataset, *HEAD, f"model.weights={weights(body(5))}")
    same = agreed(dataset, *HEAD, f"model.weights={weights(body(5), 'elsewhere.safetensors')}")
    other = agreed(dataset, *HEAD, f"model.weights={weights(body(6))}")
    assert one == same
    assert "model.fixed is" in describe_difference(one, other)
    assert "model.weights is" in describe_difference(one, other)
    assert ".safetensors" not in one


def test_what_is_fixed_is_agreed_on_and_a_model_that_is_all_trained_has_no_digest(dataset):
    drawn, again = agreed(dataset, *HEAD), agreed(dataset, *HEAD)
    other = agreed(dataset, *HEAD, "task.seed=1")
    assert drawn == again
    assert "model.fixed is" in describe_difference(drawn, other)
    assert '"fixed"' not in agreed(dataset, *BODY)
    statistics = agreed(dataset, *HEAD, "model.class=tests.own_models:WithBody")
    assert statistics == drawn


def test_statistics_that_are_estimated_are_not_agreed_on(dataset, weights):
    one, two = body(5), body(5)
    two["body.1.running_mean"] = two["body.1.running_mean"] + 1
    assert agreed(dataset, *BODY, f"model.weights={weights(one)}") == agreed(
        dataset, *BODY, f"model.weights={weights(two, 'two.safetensors')}"
    )
    fixed = [agreed(dataset, *HEAD, f"model.weights={weights(part)}") for part in (one, two)]
    assert fixed[0] != fixed[1], "of a layer that is not trained they are a part of the model"


@pytest.mark.parametrize(
    ("name", "tensor", "line"),
    [
        ("", None, " holds no tensor"),
        (
            "neck.weight",
            torch.zeros(2),
            ", which the model has not; it has 'layers.0.weight, layers.0.bias, ",
        ),
        (
            "layers.0.bias",
            torch.zeros(3),
            " in shape (3,), the model in (16,); change model.args or leave the",
        ),
        ("layers.0.bias", torch.zeros(16).long(), " as torch.int64; allowed: torch.float32"),
        (
            "layers.0.bias",
            torch.ones(16).double() * 1e300,
            " with values that are no finite torch.float32 numbers",
        ),
    ],
)
def test_a_file_of_weights_that_does_not_fit(weights, name, tensor, line):
    message = told(load_weights, Normed(), weights({name: tensor} if name else {}), "model.weights")
    assert message.startswith("model.weights: ")
    assert (f"'{name}'{line}" if name else line) in message


def test_a_file_of_weights_that_can_not_be_read(tmp_path):
    path = tmp_path / "no.safetensors"
    assert "cannot be read: No such file" in told(load_weights, Remembering(), path, "model.weights")
    path.write_bytes(b"\x80\x04pickle")
    assert "cannot be read: " in told(load_weights, Remembering(), path, "model.weights")
    line = told(load_task, "digits", ["model.weights=body.pt"])
    assert line == "model.weights = 'body.pt' is refused; allowed: a FILE.safetensors"
    task = tmp_path / "t.toml"
    task.write_text('[task]\nname = "t"\n[model]\nclass = "a:B"\nweights = "body.safetensors"\n')
    beside = str(tmp_path / "body.safetensors")
    assert load_task(str(task), []).model.weights == beside, "it stands beside its task"
