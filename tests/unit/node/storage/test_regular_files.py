"""A pipe, a device or a socket in place of a file is refused in one line, without waiting."""

import os
import re
import socket
from pathlib import Path

import pytest

from node.__main__ import main
from node.check import __main__ as check
from node.data.dataset import load_dataset
from node.init import __main__ as init
from node.predict import __main__ as predict
from node.predict.rows import read_rows
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError
from node.task.load import load_task
from node.training.build import build_model
from node.training.model_file import read_tensors
from tests.own_data import ward

NAMES = ("p", "p.csv", "p.tsv.gz", "p.npz", "p.parquet", "p.toml", "p.safetensors")
PIPE = "it is a pipe; allowed: a regular file"
ALONE = ("--peers", "127.0.0.1:1", "--listen", "127.0.0.1:0")
TASK = """
[task]
name = "ward"
[model]
class = "node.models:Linear"
args = { inputs = 2, outputs = 2 }
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Makes a folder with a pipe under every kind of name, and one for each image."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        os.mkfifo(name)
    for name in ("pipes/a", "pipes/b"):
        Path(name).mkdir(parents=True)
        os.mkfifo(f"{name}/1.png")
    Path("ward.csv").write_text(ward(20))
    Path("task.toml").write_text(TASK)
    return tmp_path


@pytest.mark.parametrize("name", ["p.csv", "p.tsv.gz", "p.npz", "p.parquet"])
def test_a_pipe_as_data(here, capsys, one_line, name):
    line = f"data file '{name}' cannot be read: {PIPE}"
    assert one_line(init.main, ["--out", "new.toml", "--data", name]) == f"error: {line}"
    with pytest.raises(ConfigError, match=re.escape(line)):
        load_dataset(load_task("task.toml", ()), Path(name), None)
    assert check.main(["task.toml", "--data", name]) == 2
    assert f"problem  data: {line}" in capsys.readouterr().out.splitlines()
    if name == "p.npz":  # another code path reads it without a schema
        with pytest.raises(ConfigError, match=re.escape(line)):
            read_rows(Path(name), load_task("task.toml", ()), 2, (2,))
    none = "error: data folder 'pipes' has no images by class; allowed: a folder for each class"
    assert one_line(init.main, ["--out", "new.toml", "--data", "pipes"]).startswith(none)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--task", "p.toml"), f"task file 'p.toml' cannot be read: {PIPE}"),
        (("--config", "p"), f"--config 'p' cannot be read: {PIPE}"),
        (("--shard", "0/20", "--allow", "p"), f"allow-list 'p' cannot be read: {PIPE}"),
        (("--shard", "0/20", "--key", "p"), f"the key file p cannot be read: {PIPE}"),
    ],
)
def test_a_pipe_as_another_file_of_a_node(here, one_line, argv, line):
    assert one_line(main, [*ALONE, "--out", "run", *argv]) == f"error: {line}"
    assert not Path("run").exists()


def test_a_pipe_as_a_model_or_as_weights_to_begin_with(here, one_line):
    line = one_line(predict.main, ["--model", "p.safetensors", "--data", "ward.csv"])
    assert line == f"error: --model 'p.safetensors' cannot be read: {PIPE}"
    with pytest.raises(Exception, match=rf"p\.safetensors cannot be read: {PIPE}; start with another --out"):
        read_tensors(Path("p.safetensors"))
    Path("task.toml").write_text(TASK + 'weights = "p.safetensors"\n')
    Path("n.csv").write_text("a,b,y\n" + "1,2,0\n2,1,1\n" * 5)
    task = load_task("task.toml", ())
    with pytest.raises(ConfigError, match=rf"model\.weights: 'p\.safetensors' cannot be read: {PIPE}"):
        build_model(task, load_dataset(task, Path("n.csv"), None))


def test_devices_and_sockets_are_named_and_files_folders_and_links_to_them_are_fine(here):
    Path("zeros.csv").symlink_to("/dev/zero")
    with pytest.raises(OSError, match=r"^it is a device; allowed: a regular file$"):
        check_regular(Path("zeros.csv"))
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        with pytest.raises(OSError, match=r"^it is a socket; allowed: a regular file$"):
            check_regular(Path("s"))
    Path("link.csv").symlink_to("ward.csv")
    for name in ("ward.csv", "pipes", "link.csv"):
        check_regular(Path(name))
