"""What changes with a task that was made for privacy when somebody switches that off."""

import pytest

from node.options import parse_arguments
from node.task.load import load_task
from node.task.table_models import is_exact
from tests.own_data import COLUMNS, TABLE, told
from tests.unit.node.cases import toml_file

OFF = "privacy.mechanism=none"
SCHEMA = {**TABLE, "columns": COLUMNS[:1]}
DP_SGD = {
    "train": {"rounds": 20, "batch_size": 64, "optimizer": "sgd", "learning_rate": 0.25, "momentum": 0.5},
    "privacy": {"mechanism": "dp-sgd", "epsilon": 2.0, "delta": 1e-6, "clipping_radius": 1.0},
}
SHARED = {
    "train": {"expected_rows": 9000, "steps": 70, "report_every": 10},
    "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 2.0, "honest": 1},
}


@pytest.fixture
def file(tmp_path):
    """Writes a task file."""

    def write(schema=SCHEMA, cls="node.models:Linear", body=None, **sections):
        model = {"class": cls, "args": {"inputs": 2, "outputs": 2}, **({"body": body} if body else {})}
        whole = {"task": {"name": "ward"}, "model": model, "data": {"schema": schema} if schema else {}}
        (tmp_path / "task.toml").write_text(toml_file({**whole, **sections}))
        return str(tmp_path / "task.toml")

    return write


def training(task):
    train = task.train
    return (train.optimizer, train.learning_rate, train.momentum, train.batch_size, train.schedule)


def note(path, *sets):
    options = ["--peers", "127.0.0.1:1", "--task", path, *(f"--set={one}" for one in sets)]
    return parse_arguments(options).privacy_note


def test_steps_with_noise_become_plain_ones(file):
    path = file(**DP_SGD)
    assert training(load_task(path, [])) == ("sgd", 0.25, 0.5, 64, "constant")
    task = load_task(path, [OFF])
    assert training(task) == ("adam", 0.03, 0.9, 16, "cosine")
    assert (task.train.rounds, task.privacy.mechanism, task.privacy.epsilon) == (20, "none", 8.0)
    assert note(path, OFF) == (
        "switched off: 'dp-sgd' has no effect; without noise optimizer = 'adam', learning_rate = 0.03, "
        "schedule = 'cosine', batch_size = 16, epochs = 1"
    )


def test_an_additive_model_is_made_by_sums_alone(file):
    path = file(
        cls="node.models:Additive", train={**SHARED["train"], "learning_rate": 5.0}, privacy=SHARED["privacy"]
    )
    task = load_task(path, [OFF])
    assert is_exact(task)
    assert load_task(path, []).train.learning_rate == 5.0


def test_keys_of_shared_noise_go_with_it(file):
    task = load_task(file(**SHARED), [OFF])
    assert training(task) == ("adam", 0.03, 0.9, 32, "cosine")
    assert (task.step_plan, task.train.expected_rows, task.privacy.honest) == (None, None, None)
    for wrong, line in (
        ("train.steps=7", "train.steps = 7 has no effect without privacy.mechanism"),
        ("train.rounds=0", "train.rounds = 0 is refused"),
        ("data.schema=5", "data.schema = 5"),
    ):
        assert line in told(load_task, file(**SHARED), [OFF, wrong])


def test_a_key_that_is_set_beside_it_stays_and_privacy_that_stays_on_is_no_news(file):
    path = file(**DP_SGD)
    task = load_task(path, ["train.learning_rate=0.5", OFF, "train.optimizer=sgd"])
    assert training(task) == ("sgd", 0.5, 0.9, 16, "cosine")
    for sets in ((), ("privacy.epsilon=3",), ("privacy.mechanism=ldp",)):
        assert note(path, *sets) == ""
    assert note("digits") == note("digits", OFF) == ""


def test_seconds_that_are_set_beside_it_take_the_place_of_epochs(file):
    path = file(**DP_SGD)
    assert load_task(path, [OFF, "train.seconds=5"]).train.seconds == 5
    assert note(path, OFF, "train.seconds=5").endswith("batch_size = 16")


@pytest.mark.parametrize("changed", [{"schema": None}, {"body": "layers"}, {"cls": "somebody:Net"}])
def test_rows_of_unknown_width_take_short_steps(file, changed):
    rate = load_task(file(**changed, **DP_SGD), [OFF]).train.learning_rate
    assert rate == (0.003 if "cls" in changed else 0.001)


def test_noise_on_updates_leaves_training_as_it_was(file):
    train = {"learning_rate": 0.05}
    path = file(train=train, privacy={"mechanism": "ldp", "epsilon": 50.0})
    assert training(load_task(path, [OFF])) == training(load_task(path, []))
    assert note(path, OFF) == "switched off: 'ldp' has no effect"


def test_a_file_that_was_changed_by_hand_is_told(file):
    path = file(**{**DP_SGD, "privacy": {**DP_SGD["privacy"], "mechanism": "none"}})
    assert training(load_task(path, [])) == ("sgd", 0.25, 0.5, 64, "constant")
    assert note(path).startswith("off, although the task has privacy.epsilon: if it was made for noise, its")
