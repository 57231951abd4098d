import pickle

import numpy as np
import pytest
import torch

from node.data.dataset import load_dataset
from node.task.load import load_task
from node.training.build import build_model
from tests.own_data import told
from tests.unit.node.cases import cases

CSV = "a,b,y\n" + "".join(f"{row},{row / 2},{row % 3}\n" for row in range(20))


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        path = tmp_path / "rows.npz"
        np.savez(path, **arrays)
        return path

    return write


def own_task(*overrides):
    return load_task("digits", ["model.args.sizes=[2, 3]", *overrides])


def refused(path, *overrides, shard=None):
    return told(load_dataset, own_task(*overrides), path, shard)


def test_the_shards_of_digits_are_its_training_rows_and_the_test_rows_are_common():
    task = load_task("digits", [])
    shards = [load_dataset(task, None, (part, 5)) for part in range(5)]
    whole = load_dataset(task, None, (0, 1))
    assert len(whole.train_y) + len(whole.test_y) == 1797
    assert len(whole.test_y) == 359
    assert set(torch.bincount(whole.test_y).tolist()) == {35, 36, 37}, "stratified"
    assert sum(len(shard.train_y) for shard in shards) == len(whole.train_y)
    assert all(torch.equal(shard.test_x, whole.test_x) for shard in shards)
    together = torch.cat([shard.train_x for shard in shards])
    assert torch.equal(together.sum(0), whole.train_x.sum(0))
    assert (whole.classes, whole.accuracy_name) == (10, "test")
    assert (whole.train_x.dtype, whole.train_y.dtype) == (torch.float32, torch.int64)
    assert (float(whole.train_x.min()), float(whole.train_x.max())) == (0, 1)
    assert shards[0].description.startswith(
        "digits: 1797 rows, images of 8 x 8 pixels, 10 classes; part 0 of 5"
    )


def test_the_seed_of_the_task_fixes_split_and_partition_and_no_shard_is_empty():
    one, again = (load_dataset(load_task("digits", []), None, (1, 5)) for _ in range(2))
    other = load_dataset(load_task("digits", ["task.seed=1"]), None, (1, 5))
    assert torch.equal(one.train_x, again.train_x)
    assert not torch.equal(one.test_x, other.test_x)
    assert len(one.train_x) != len(other.train_x)
    shards = (load_dataset(load_task("digits", []), None, (part, 179)) for part in range(0, 179, 60))
    assert min(len(shard.train_y) for shard in shards) >= 8


def test_shards_that_can_not_be(write):
    assert refused(None, shard=(0, 180)) == (
        "--shard 0/180 is refused: digits has 1438 rows to train on, enough for 179 parts of at least 8"
    )
    message = refused(None)
    assert message.startswith("task 'digits' divides its data among the peers; give --shard I/N")
    assert "--data FILE" in message
    assert "--data and --shard contradict each other" in refused(write(CSV), shard=(0, 2))


@pytest.mark.parametrize("shard", [None, (0, 2)])
def test_a_task_without_data_of_its_own(write, shard):
    path = write('[task]\nname="t"\n[model]\nclass="node.models:MLP"\n', "t.toml")
    line = told(load_dataset, load_task(str(path), []), None, shard)
    assert line.startswith("task 't' has no data of its own; give --data FILE.csv")


def test_a_csv_of_ones_own(write):
    dataset = load_dataset(own_task(), write(CSV), None)
    assert (dataset.train_x.shape, dataset.test_x.shape) == ((16, 2), (4, 2))
    assert (dataset.classes, dataset.accuracy_name) == (3, "validation")
    assert (dataset.train_x.dtype, dataset.train_y.dtype) == (torch.float32, torch.int64)
    assert dataset.description == (
        "rows.csv: 20 rows, 2 features ('a' to 'b'), target 'y' (classes 0 to 2); 16 to train on, "
        "4 held back for validation"
    )


def test_chosen_columns_and_columns_of_text_that_are_not_used(write):
    text = '\ufeffname,"y",b,a\nAda,0,1,2\n\n"Bell, C",1,3,4\r\nCurie,1,5,6\n'
    task = own_task("data.target=y", 'data.features=["a","b"]')
    dataset = load_dataset(task, write(text), None)
    rows = torch.cat([dataset.train_x, dataset.test_x]).tolist()
    assert sorted(rows) == [[2, 1], [4, 3], [6, 5]]


def test_an_npz_of_ones_own(npz):
    images, labels = np.zeros((10, 2, 4, 4), np.uint8), np.arange(10) % 2
    images[:, 0, 0, 0] = np.arange(10)
    dataset = load_dataset(own_task(), npz(x=images, y=labels), None)
    rows = torch.cat([dataset.train_x, dataset.test_x])
    assert (rows.shape, rows.dtype) == ((10, 2, 4, 4), torch.float32)
    assert sorted(rows[:, 0, 0, 0].tolist()) == list(range(10))
    named = own_task("data.target=labels", 'data.features=["images"]')
    assert load_dataset(named, npz(images=images, labels=labels), None).classes == 2


def test_a_source_of_ones_own_and_its_shards(write):
    task = own_task(f"data.source={write(CSV)}")
    assert load_dataset(task, None, None).accuracy_name == "validation"
    shards = [load_dataset(task, None, (part, 2)) for part in range(2)]
    assert [shard.accuracy_name for shard in shards] == ["test", "test"]
    assert torch.equal(shards[0].test_x, shards[1].test_x)
    assert sum(len(shard.train_y) for shard in shards) == 16


def test_targets_that_are_not_whole_are_numbers_to_regress_on(write):
    path = write("a,b,y\n" + "".join(f"{row},1,{row + 0.5}\n" for row in range(40)))
    dataset = load_dataset(own_task(), path, None)
    assert (dataset.classes, dataset.train_y.dtype) == (None, torch.float32)
    assert "any number" in dataset.description
    shards = [load_dataset(own_task(f"data.source={path}"), None, (part, 2)) for part in range(2)]
    assert [len(shard.train_y) for shard in shards] == [16, 16]
    assert "answers 2 rows with shape (2, 3); allowed: one number a row" in not_built(path)
    built(path, "model.class=node.models:Linear", "model.args={inputs=2, outputs=1}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b,y\n1,2,0\n", " has 1 rows; at least 2 are needed"),
        ("a,b,y\n1,2,0\n1,red,1\n", ", row 2, column 'b': 'red' is not a number"),
        ("a,b,y\n1,,0\n1,2,1\n", ", row 1, column 'b': '' is not a number"),
        ("a,b,y\n1,2,0\n\n1,nan,1\n", ", row 2, column 'b': 'nan' is not a number (decimals"),
        ("a,b,y\n1,1e300,0\n1,2,1\n", "'1e300' is not a number (decimals have a point; at most 1e30)"),
        ("a,b,y\n1,2,-1\n1,2,1\n", ": target 'y' holds the label -1; allowed: 0 to K-1"),
        ("a,b,y\n1,2,1e18\n1,2,1\n", ": target 'y' holds the label 1000000000000000000; allowed: 0 to K-1"),
        ('a,b,y\n1,"2"x,0\n1,2,1\n', ", row 1, column 'b': '2x' is not a number"),
    ],
)
def test_a_bad_csv(write, text, line):
    message = refused(write(text))
    assert message.startswith("data file '")
    assert line in message


@cases("""
    override => line
    data.target=z => has no column 'z', which data.target asks for; it has 'a, b, y'
    data.features=["a", "z"] => has no column 'z', which data.features asks for
    data.features=["a", "y"] => column 'y' is the target
""")
def test_columns_that_can_not_be(write, override, line):
    assert line in refused(write(CSV), override)


def test_unreadable_data(tmp_path, write):
    for name in ("no.csv", "no.npz"):
        assert "cannot be read: No such file or directory" in refused(tmp_path / name)
    kinds = "is refused; allowed: .csv, .tsv or .txt (each also .gz), .xlsx, .parquet, .npz"
    assert kinds in refused(write("x", "rows.dat"))
    (tmp_path / "folder.csv").mkdir()
    assert "cannot be read: Is a directory" in refused(tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"x": np.zeros((4, 2))}, "has no array 'y'; it has 'x'"),
        ({"x": np.zeros(4), "y": np.zeros(4)}, "x is (4,) and y is (4,); allowed: shapes (n, ...) and (n,)"),
        ({"x": np.zeros((4, 2)), "y": np.zeros(3)}, "x is (4, 2) and y is (3,); allowed"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, "has 0 rows; at least 2 are needed"),
        ({"x": np.array([[1, 2], [3, np.nan]]), "y": np.zeros(2)}, "x[1, 1] = nan is not a finite number"),
        ({"x": np.array([["a"], ["b"]]), "y": np.zeros(2)}, "array 'x' holds <U1, not numbers"),
    ],
)
def test_a_bad_npz(npz, arrays, line):
    assert line in refused(npz(**arrays))


def test_files_that_are_no_npz(write, npz):
    path = npz(x=np.ones((400, 2)), y=np.zeros(400))
    message = refused(path, 'data.features=["a", "b"]')
    assert "data.features names 2 arrays; allowed for npz: one" in message
    whole = bytearray(path.read_bytes())
    for content in (b"", b"garbage", pickle.dumps({"x": 1}), whole[: len(whole) // 2]):
        assert "is not an npz file" in refused(write(bytes(content), "bad.npz"))
    whole[1000] ^= 1
    assert "cannot be read: Bad CRC-32" in refused(write(bytes(whole), "bad.npz"))


def built(path, *overrides):
    task = own_task(*overrides)
    return build_model(task, load_dataset(task, path, None))


def not_built(path, *overrides):
    return told(built, path, *overrides)


def test_a_model_is_drawn_under_the_seed_and_leaves_the_global_generator_alone(write):
    path = write(CSV)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = built(path), built(path), built(path, "task.seed=1")
    assert torch.equal(torch.get_rng_state(), before)
    weights = [model.state_dict()["layers.0.weight"] for model in (one, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@cases("""
    override => line
    model.class=nosuch.module:Net => 'nosuch.module:Net' cannot be imported: ModuleNotFoundError
    model.class=node.models:Nope => 'node.models:Nope' cannot be imported: AttributeError
    model.class=math:pi => 'math:pi' is not a class; allowed: 'package.module:Class'
    model.class=pathlib:Path => model.class = 'pathlib:Path' is refused; allowed: a torch.nn.Module
    model.args.depth=3 => do not suit node.models:MLP: TypeError:
    model.args.sizes=[64] => ValueError: sizes must be two or more whole numbers above 0, not [64]
    model.args.sizes=[3, 3] => does not take rows of 2 features: RuntimeError: mat1 and mat2 shapes
    model.args.sizes=[2, 2] => shape (2, 2); allowed: at least 3 logits a row, as class labels go up to 2
""")
def test_a_model_that_does_not_fit(write, override, line):
    assert line in not_built(write(CSV), override)
