"""Where a node trains: on a device only if there is something to train, and on its share of the cores."""

import os
import threading
from dataclasses import replace

import pytest
import torch

from node.data.dataset import load_dataset
from node.system.errors import UserError
from node.task.load import load_task
from node.task.parameters import canonical_parameters
from node.training.at_once import parts
from node.training.build import build_model
from node.training.devices import find_device, thread_count, tried, usable_cores
from node.training.gradient_steps import PlainSteps
from node.training.losses import make_loss
from node.training.trainer import Trainer, moved, read_vector
from tests.own_data import told
from tests.unit.node.cases import cases

HERE = [f"127.0.0.1:{port}" for port in (1, 2, 3)]
LAN = ["10.0.0.5:9001", "10.0.0.5:9002", "10.0.0.7:9001"]


@pytest.mark.parametrize("asked", ["mps", "cuda:99"])
def test_a_device_that_is_not_there_is_one_line(asked):
    if asked == "mps" and torch.backends.mps.is_available():
        pytest.skip("it is there")
    line = told(find_device, asked)
    assert line.startswith(f"train.device = '{asked}' is not there: torch {torch.__version__} finds ")
    assert "'cpu'; set one of them, or 'auto' for '" in line


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="more than a CPU")
def test_with_a_cpu_alone():
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    assert told(find_device, "cuda").endswith(" finds 'cpu'; set one of them, or 'auto' for 'cpu'")


@pytest.mark.skipif(torch.cuda.is_available(), reason="it works")
def test_a_device_that_torch_finds_and_can_not_use_is_one_line():
    line = told(tried, torch.device("cuda:0"))
    assert line.startswith("train.device = 'cuda:0' is there and does not work: ")
    assert line.endswith("; set another, or 'cpu'")


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="it takes them")
def test_a_device_that_does_not_take_the_model_is_one_line():
    task = load_task("digits", [])
    dataset = load_dataset(task, None, (0, 5))
    with pytest.raises(UserError, match=r"^train.device = 'mps' does not take model and rows: .*'cpu'$"):
        moved(build_model(task, dataset), dataset, torch.device("mps"))


class Hungry(torch.nn.Linear):
    """Runs out of memory from its second batch on, with a device's error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(64, 10)
        self.error, self.batches = error, 0
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, rows):
        self.batches += 1
        self.seen += 1
        if self.batches > 1:
            raise self.error
        return super().forward(rows)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)."),
        RuntimeError("shapes do not fit"),
    ],
)
def test_a_device_without_memory_is_one_line_and_leaves_nothing_behind(error):
    task = load_task("digits", [])
    dataset, model = load_dataset(task, None, (0, 5)), Hungry(error)
    trainer = Trainer(model, task.train, dataset, 0, PlainSteps)
    vector = read_vector(model, "*")
    line = "train.device = 'cpu' is out of memory; lower train.batch_size = 16, end what else uses it, or "
    kind, line = (UserError, line) if "out of memory" in str(error) else (RuntimeError, "shapes do not fit")
    with pytest.raises(kind, match=line):
        trainer.train(vector, 1, threading.Event())
    assert model.seen.item() == 0
    for use in (trainer.evaluate, trainer.own_loss):
        with pytest.raises(kind, match=line):
            use(vector)


@cases("""
    name
    cross-entropy
    tests.own_training:weighted
    tests.own_training:Weighted
    tests.own_training:Balanced
""")
def test_the_tensors_of_a_loss_are_where_the_model_is(name):
    """On "meta", a device with shapes and without values, which refuses tensors from elsewhere."""
    arguments = {} if name.endswith("Balanced") else {"weight": [1.0] * 10}
    section = replace(load_task("digits", []).train, loss=name, loss_args=arguments)
    outputs = torch.zeros(4, 10, device="meta", requires_grad=True)
    targets = torch.zeros(4, dtype=torch.int64, device="meta")
    assert make_loss(section, 10, torch.device("meta"))(outputs, targets).device.type == "meta"


def test_a_device_is_nobody_elses_business():
    plain = load_task("digits", [])
    own = load_task("digits", ["train.device=auto", "train.threads=3", 'train.metrics=["auc"]'])
    assert canonical_parameters(plain, [], 4.0) == canonical_parameters(own, [], 4.0)


@pytest.mark.parametrize(
    ("asked", "listen", "peers", "tracker", "share"),
    [
        (5, None, HERE, None, None),
        (None, None, HERE, None, 3),
        (None, "127.0.0.1:1", HERE, None, 3),
        (None, "10.0.0.5:9001", LAN, None, 2),
        (None, "10.0.0.7:9001", LAN, None, 1),
        (None, None, [], "127.0.0.1:9000", 10**6),
        (None, None, [], "localhost:9000", 10**6),
        (None, "10.0.0.5:9001", [], "10.0.0.7:9000", 1),
        (None, None, [f"127.0.0.1:{port}" for port in range(1, 65)], None, 64),
    ],
)
def test_torch_gets_this_nodes_share_of_the_cores(asked, listen, peers, tracker, share):
    expected = asked or max(1, usable_cores() // share)
    assert thread_count(asked, listen, peers, tracker) == expected


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_cores_that_were_taken_away_do_not_count():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cores() == 1
        assert thread_count(None, None, HERE, None) == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("shape", "most", "lengths"),
    [
        ((0, 4), 10, [0]),
        ((25, 4), 10, [9, 8, 8]),
        ((3, 4), 1, [1, 1, 1]),
        ((50, 3, 224, 224), 4096, [25, 25]),  # of .6 MB each
        ((7, 1 << 23), 4096, [3, 2, 2]),  # a row is larger than what a part may have, and none is alone
    ],
)
def test_few_large_rows_are_computed_at_once(shape, most, lengths):
    rows = torch.zeros(1).expand(shape)
    assert [len(part) for part in parts(rows, most)] == lengths
