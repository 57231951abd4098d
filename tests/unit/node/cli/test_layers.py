"""Options from the command line, the environment and a file: which value counts, which place is named."""

from pathlib import Path

import pytest

from node.errors import ConfigError
from node.options import read_options
from node.tracker import options as tracker

HERE = "127.0.0.1:9001"
PEERS = {"MURMURATION_NODE_PEERS": HERE}


def file(folder: Path, text: str) -> str:
    path = folder / "node.toml"
    path.write_text(text, "utf-8")
    return str(path)


def refused(argv, environ, read=read_options):
    with pytest.raises(ConfigError) as caught:
        read(argv, environ)
    assert "\n" not in str(caught.value)
    assert caught.value.status == 2
    return str(caught.value)


def test_the_order_is_command_line_environment_file_default(tmp_path):
    written = 'rounds = 1\nseed = 1\nlog-level = "error"\ndrain-timeout = 1\n'
    argv = ["--config", file(tmp_path, written), "--rounds", "3"]
    environ = {**PEERS, "MURMURATION_NODE_ROUNDS": "2", "MURMURATION_NODE_SEED": "2"}
    options = read_options(argv, environ)
    assert (options.rounds, options.seed, options.log.level) == (3, 2, "error")
    assert (options.drain_timeout_s, options.json, options.open) == (1.0, False, False)
    assert read_options(argv[2:], PEERS).drain_timeout_s == 30.0


def test_task_keys_are_put_one_over_the_other_in_the_same_order(tmp_path):
    written = "[set.train]\nepochs = 1\nbatch_size = 8\n[set.model.args]\nsizes = [64, 5, 10]\n"
    environ = {**PEERS, "MURMURATION_NODE_SET_train__epochs": "2", "MURMURATION_NODE_SET_train__rounds": "2"}
    argv = ["--config", file(tmp_path, written), "--set", "train.rounds=3"]
    task = read_options(argv, environ).task
    assert (task.train.batch_size, task.train.epochs, task.train.rounds) == (8, 2, 3)
    assert task.model.args == {"sizes": [64, 5, 10]}


def test_every_option_can_stand_in_a_file(tmp_path):
    written = (
        f'peers = ["{HERE}", "127.0.0.1:9002"]\nlisten = "{HERE}"\ntask = "digits"\nshard = "0/3"\nout = "o"'
        '\nkey = "k"\nallow = "a"\nopen = false\njson = true\ndebug = true\nlog = "json"\n'
    )
    options = read_options([], {"MURMURATION_NODE_CONFIG": file(tmp_path, written)})
    assert [peer.endpoint for peer in options.peers] == [HERE, "127.0.0.1:9002"]
    assert (options.listen, options.shard, options.out) == (HERE, (0, 3), Path("o"))
    assert (options.key, options.allow) == (Path("k"), Path("a"))
    assert (options.open, options.json, options.debug) == (False, True, True)
    assert (options.log.style, options.log.level) == ("json", "debug")


def test_a_switch_in_the_environment_can_be_off(tmp_path):
    argv = ["--config", file(tmp_path, "json = true\n")]
    assert read_options(argv, PEERS).json
    assert not read_options(argv, {**PEERS, "MURMURATION_NODE_JSON": "0"}).json


def test_a_value_may_begin_with_a_dash():
    assert "MURMURATION_NODE_SHARD '-1/5' is refused" in refused(
        [], {**PEERS, "MURMURATION_NODE_SHARD": "-1/5"}
    )


def test_other_variables_of_this_project_are_no_options():
    """MURMURATION_DATA names the folder of data sets, and a tracker's variables are not a node's."""
    environ = {**PEERS, "MURMURATION_DATA": "/nowhere", "MURMURATION_TRACKER_LISTEN": HERE}
    assert read_options([], environ).data is None


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("LISTEN", "here", "MURMURATION_NODE_LISTEN 'here' is refused; allowed: HOST:PORT"),
        ("ROUNDS", "many", "MURMURATION_NODE_ROUNDS 'many' is refused; allowed: a whole number from 1"),
        ("SEED", "", "MURMURATION_NODE_SEED '' is refused"),
        ("SHARD", "5/5", "MURMURATION_NODE_SHARD '5/5' is refused"),
        ("OUT", "", "MURMURATION_NODE_OUT '' is refused; allowed: a path"),
        ("LOG", "xml", "MURMURATION_NODE_LOG 'xml' is refused; allowed: text or json"),
        (
            "LOG_LEVEL",
            "all",
            "MURMURATION_NODE_LOG_LEVEL 'all' is refused; allowed: debug, info, warning, error",
        ),
        (
            "DRAIN_TIMEOUT",
            "-1",
            "MURMURATION_NODE_DRAIN_TIMEOUT '-1' is refused; allowed: a whole number from 0",
        ),
        ("OPEN", "yes", "MURMURATION_NODE_OPEN: 'yes' is refused; allowed: true or false"),
        (
            "LISTN",
            HERE,
            "MURMURATION_NODE_LISTN is not a known variable (did you mean MURMURATION_NODE_LISTEN?)",
        ),
        (
            "TRACKER",
            "ftp://x",
            "MURMURATION_NODE_TRACKER 'ftp://x' is refused; allowed: KEY@https://HOST:PORT",
        ),
        ("SET_train__epochs", "x", "MURMURATION_NODE_SET_train__epochs: train.epochs = 'x' is refused"),
        ("SET_train__epoch", "1", "MURMURATION_NODE_SET_train__epoch: 'train.epoch' is not a known key"),
        ("SET_train", "1", "MURMURATION_NODE_SET_train 'train=1' is refused; allowed: section.key=value"),
        ("CONFIG", "no.toml", "--config 'no.toml' cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(name, value, told):
    assert told in refused([], {**PEERS, f"MURMURATION_NODE_{name}": value})


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('listen = "here"', "listen in {} 'here' is refused; allowed: HOST:PORT"),
        ("rounds = 0", "rounds in {} '0' is refused; allowed: a whole number from 1 to 1000000"),
        ("rounds = 1.5", "rounds in {} '1.5' is refused"),
        ("rounds = [1]", "rounds in {}: [1] is refused; allowed: text, a number, true or false"),
        ("open = 7", "open in {}: '7' is refused; allowed: true or false"),
        ("listn = 1", "listn in {} is not a known key (did you mean listen?); allowed: allow, data"),
        ("config = 'x'", "config in {} is not a known key"),
        ("set = 3", "set in {}: 3 is refused; allowed: a table, as in [set.train]"),
        ("[set]\ntrain = 3", "set in {}: train is no section; allowed: a key of a section"),
        (
            "[set.train]\nepochs = 'x'",
            "set.train.epochs in {}: train.epochs = 'x' is refused; allowed: a whole",
        ),
        ("[set.tarin]\nepochs = 1", "set.tarin.epochs in {}: 'tarin' is not a known section"),
        (
            f"tracker = '{HERE}'",
            "both are given: MURMURATION_NODE_PEERS HOST:PORT,... and tracker in {} URL; give exactly one",
        ),
        ("shard = '0/3'\ndata = 'x.csv'", "data in {} 'x.csv' and shard in {} contradict each other"),
        ("allow = 'x'\nopen = true", "allow in {} 'x' and open in {} contradict each other"),
        ("listen = '10.0.0.1:1'", "listen in {} '10.0.0.1:1' is not on this machine, so say who may join"),
        ("listen = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path, written, told):
    path = file(tmp_path, written)
    assert told.replace("{}", path) in refused(["--config", path], PEERS)


def test_a_file_that_is_none(tmp_path):
    assert "cannot be read: Is a directory" in refused(["--config", str(tmp_path)], PEERS)
    (tmp_path / "latin").write_bytes(b"key = '\xe9'")
    assert "is not valid TOML: 'utf-8' codec" in refused(["--config", str(tmp_path / "latin")], PEERS)
    (tmp_path / "large").write_bytes(b"#" * ((1 << 20) + 1))
    assert "is refused: more than 1 MiB" in refused(["--config", str(tmp_path / "large")], PEERS)
    assert "cannot be read: embedded null" in refused(["--config", "a\0b"], PEERS)


def test_the_weaker_place_is_not_blamed_for_the_stronger_one(tmp_path):
    path = file(tmp_path, "[set.train]\nepochs = 1\n")
    environ = {**PEERS, "MURMURATION_NODE_SET_train__epochs": "0"}
    assert refused(["--config", path], environ).startswith(
        "MURMURATION_NODE_SET_train__epochs: train.epochs = 0"
    )
    assert refused(["--set", "train.epochs=many"], environ).startswith("train.epochs = 'many' is refused")


def test_a_tracker_takes_them_too(tmp_path):
    path = file(tmp_path, f'listen = "{HERE}"\nmin-peers = 4\nlog = "text"\n')
    options = tracker.read_options(["--config", path], {"MURMURATION_TRACKER_MIN_PEERS": "5"})
    assert (options.listen, options.min_peers, options.log.style) == (HERE, 5, "text")
    assert refused([], {}, tracker.read_options) == (
        "--listen HOST:PORT is missing: say where peers reach this tracker"
    )
    path = file(tmp_path, "[set.train]\nepochs = 1\n")
    assert f"set in {path} is not a known key" in refused(["--config", path], {}, tracker.read_options)
