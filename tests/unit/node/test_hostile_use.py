"""Careless or hostile input to node.init, node.check and node.predict: one line, and a status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from node.app.run import run
from node.check import __main__ as check
from node.init import __main__ as init
from node.options import parse_arguments
from node.predict import __main__ as predict
from node.runtime.record.ending import Alone
from node.training.model_file import KEY
from tests.openings import after_opening
from tests.own_data import ward
from tests.unit.node.cases import cases

ALONE = ("--peers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--wait", "0")
ALONE += ("--set", "aggregation.group_timeout_s=0.05")
ROOT = Path(__file__).resolve().parents[3]
LONG = "x" * 300
TABLES = ".csv, .tsv, .txt, .xlsx, .parquet or a folder of texts"
IMAGES_ALLOWED = "a folder for each class, with two images or more in all (.bmp, .jpeg, .jpg, .png, .webp)"
FILES_ALLOWED = (
    ".csv, .tsv or .txt (each also .gz), .xlsx, .parquet, .npz, or a folder of images or texts with a task "
    "that has a schema (python -m node.init makes one)"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Makes a folder with ward.csv, task.toml, and a model of one round in run/."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "ward.csv").write_text(ward(100))
    made = ("--data", str(folder / "ward.csv"), "--out", str(folder / "task.toml"), "--privacy", "none")
    assert init.main([*made, "--model", "linear"]) == 0
    task = ("--task", str(folder / "task.toml"), "--data", str(folder / "ward.csv"), "--rounds", "1")
    with pytest.raises(Alone):
        run(parse_arguments([*task, *ALONE, "--out", str(folder / "run")]))
    return folder


@pytest.fixture
def here(trained, tmp_path, monkeypatch):
    """Copies these files to a folder that a test may spoil."""
    monkeypatch.chdir(tmp_path)
    for name in ("ward.csv", "task.toml"):
        Path(name).write_bytes((trained / name).read_bytes())
    Path("model.safetensors").write_bytes((trained / "run" / "model.safetensors").read_bytes())
    Path("folder.csv").mkdir()
    Path("folder").mkdir()
    os.mkfifo("fifo")
    Path("loop.csv").symlink_to("loop.csv")
    return tmp_path


def told(capsys, command, *argv):
    """Returns the one line of a command that ends with status 2, besides its line of what it starts."""
    capsys.readouterr()
    assert command.main([str(part) for part in argv]) == 2
    said = capsys.readouterr()
    assert after_opening(said.out) == ""
    (line,) = said.err.splitlines()
    return line


def spoilt(change, tensors=None):
    """Writes bad.safetensors: the model with changed metadata."""
    with safe_open("model.safetensors", "np") as file:
        about = json.loads(file.metadata()[KEY])
        held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dictionary
    change(about)
    save_file(held if tensors is None else tensors, "bad.safetensors", metadata={KEY: json.dumps(about)})
    return "bad.safetensors"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("loop.csv",), "data file 'loop.csv' cannot be read: Too many levels of symbolic links"),
        ((f"{LONG}.csv",), f"--data '{LONG[:56]}... cannot be used: File name too long"),
        (("ward.csv", "--out", LONG), f"--out '{LONG[:56]}... cannot be used: File name too long"),
        (("ward.csv", "--out", "a\0b"), r"--out 'a\x00b' is refused; allowed: a path"),
        (("ward.csv", "--out", ""), "--out '' is refused; allowed: a path"),
        (("ward.csv", "--out", "folder", "--force"), "--out 'folder' cannot be written: Is a directory"),
        (("folder.csv",), f"data folder 'folder.csv' has no images by class; allowed: {IMAGES_ALLOWED}"),
    ],
)
def test_paths_that_init_can_not_use(here, capsys, argv, line):
    assert told(capsys, init, "--out", "new.toml", "--data", *argv) == f"error: {line}"


@cases("""
    data => line
    loop.csv => 'loop.csv' cannot be read: Too many levels of symbolic links
    folder.csv => 'folder.csv' cannot be read: Is a directory
    LONG.csv => 'LONG... cannot be read: File name too long
""")
def test_data_that_check_can_not_read_is_a_problem(here, capsys, data, line):
    assert check.main(["task.toml", "--data", data.replace("LONG", LONG)]) == 2
    said = capsys.readouterr()
    told_of = f"problem  data: data file {line.replace('LONG', LONG[:56])}"
    assert (after_opening(said.err), said.out.splitlines()[1]) == ("", told_of)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads(unbuffered):
    """As in `python -m node.check ... | head -1`; the write fails at once, or at the end."""
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "node.check", "--help"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(write)
    line = "error: the output cannot be written: its reader has ended; let that run, or write to a file"
    assert (ended.returncode, ended.stderr.decode().splitlines()) == (1, [line])


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--model", ""), "--model '' is refused; allowed: a path"),
        (("--model", LONG), f"--model '{LONG[:56]}... cannot be used: File name too long"),
        (("--model", "a\0b"), r"--model 'a\x00b' is refused; allowed: a path"),
        (("--data", ""), "--data '' is refused; allowed: a path"),
        (("--out", ""), "--out '' is refused; allowed: a path"),
        (("--out", "a\0b"), r"--out 'a\x00b' is refused; allowed: a path"),
        (("--out", "folder"), "--out 'folder' exists and is not a file of predictions; give another"),
        (("--out", "fifo"), "--out 'fifo' exists and is not a file of predictions; give another"),
        (("--data", "bad.safetensors"), f"data file 'bad.safetensors' is refused; allowed: {FILES_ALLOWED}"),
        (
            ("--model", "run"),
            "--model 'run/model.safetensors' is a folder; allowed: a run's --out, or a file",
        ),
        (
            ("--data", "rows.npz"),
            f"data 'rows.npz' does not fit data.schema.kind = 'table'; allowed: {TABLES}",
        ),
    ],
)
def test_paths_that_predict_can_not_use(here, capsys, argv, line):
    (here / "run" / "model.safetensors").mkdir(parents=True)
    np.savez("rows.npz", x=np.zeros((3, 6)))
    good = ("--model", "model.safetensors", "--data", "ward.csv", "--out", "new.csv")
    assert told(capsys, predict, *good, *argv) == f"error: {line}"
    assert not Path("new.csv").exists()


def test_only_predictions_are_replaced(here, capsys):
    """Not the owner's rows, if --out is the file of --data."""
    before = Path("ward.csv").read_bytes()
    argv = ("--model", "model.safetensors", "--data", "ward.csv")
    line = told(capsys, predict, *argv, "--out", "ward.csv")
    assert line == "error: --out 'ward.csv' exists and is not a file of predictions; give another"
    assert Path("ward.csv").read_bytes() == before
    for _ in range(2):
        assert predict.main([*argv, "--out", "p.csv"]) == 0
    assert Path("p.csv").read_text().startswith("row,prediction,")


@pytest.mark.parametrize("key", ["classes", "row"])
@pytest.mark.parametrize("value", [-1, 1, 10**30, True, "x", [0], ["a"], [[1]]])
def test_a_model_that_says_nonsense_of_itself(here, capsys, key, value):
    path = spoilt(lambda about: about.update({key: value}))
    assert told(capsys, predict, "--model", path, "--data", "ward.csv") == (
        "error: --model 'bad.safetensors' does not say what its rows and classes are; take the file as a "
        "node wrote it"
    )


@pytest.mark.parametrize(("classes", "wanted"), [(None, "one number"), (3, "3 logits")])
def test_a_model_that_answers_in_another_way_than_it_says(here, capsys, classes, wanted):
    path = spoilt(lambda about: about.update(classes=classes))
    assert told(capsys, predict, "--model", path, "--data", "ward.csv") == (
        f"error: model node.models:Linear answers (100, 2) to 100 rows; allowed: {wanted} a row; "
        "the class is another one than it was"
    )


@pytest.mark.parametrize("privacy", [{"x": 1}, {"outside": "", "epsilon_spent": "a"}])
def test_a_ledger_that_no_node_wrote(here, capsys, privacy):
    path = spoilt(lambda about: about.update(privacy=privacy))
    line = told(capsys, predict, "--model", path, "--data", "ward.csv", "--out", "new.csv")
    assert line == (
        f"error: --model states {privacy} as the privacy spent, which no node does; use the original file"
    )
    assert not Path("new.csv").exists()


def test_a_model_file_says_nothing_to_the_terminal_but_words(here, capsys):
    path = spoilt(lambda about: about.update(generation="1\n\x1b[31m", participants="\x07"))
    capsys.readouterr()
    assert predict.main(["--model", path, "--data", "ward.csv"]) == 0
    first = after_opening(capsys.readouterr().out).splitlines()[0]
    assert first.endswith(" of generation 1 ?[31m, the mean of ? updates")


@pytest.mark.parametrize("command", [init, predict])
def test_with_debug_there_is_a_traceback_and_the_same_line(here, capsys, command):
    assert command.main(["--data", "none.csv", "--model", "none", "--debug"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("Traceback")
    assert errors[-1].startswith("error: ")
