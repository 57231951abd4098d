"""Options from the command line, the environment and a file: which value counts, which place is named."""

from pathlib import Path

import pytest

from node.options import read_options
from node.system.errors import ConfigError
from node.tracker import options as tracker
from tests.unit.node.cases import cases

HERE = "127.0.0.1:9001"
PEERS = {"MURMURATION_NODE_PEERS": HERE}


def file(folder: Path, text: str) -> str:
    path = folder / "node.toml"
    path.write_text(text, "utf-8")
    return str(path)


def refused(argv, environ, read=read_options):
    with pytest.raises(ConfigError) as caught:
        read(argv, environ)
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


def test_a_switch_in_the_environment_can_be_off_and_other_variables_are_no_options(tmp_path):
    """MURMURATION_DATA names the folder of data sets, and a tracker's variables are not a node's."""
    argv = ["--config", file(tmp_path, "json = true\n")]
    assert read_options(argv, PEERS).json
    assert not read_options(argv, {**PEERS, "MURMURATION_NODE_JSON": "0"}).json
    environ = {**PEERS, "MURMURATION_DATA": "/nowhere", "MURMURATION_TRACKER_LISTEN": HERE}
    assert read_options([], environ).data is None


@cases("""
    name => value => line
    LISTEN => here => LISTEN 'here' is refused; allowed: HOST:PORT
    ROUNDS => many => ROUNDS 'many' is refused; allowed: a whole number from 1
    SEED => => SEED '' is refused
    SHARD => 5/5 => SHARD '5/5' is refused
    SHARD => -1/5 => SHARD '-1/5' is refused
    OUT => => OUT '' is refused; allowed: a path
    LOG => xml => LOG 'xml' is refused; allowed: text or json
    LOG_LEVEL => all => LOG_LEVEL 'all' is refused; allowed: debug, info, warning, error
    DRAIN_TIMEOUT => -1 => DRAIN_TIMEOUT '-1' is refused; allowed: a whole number from 0
    OPEN => yes => OPEN: 'yes' is refused; allowed: true or false
    LISTN => h:1 => LISTN is not a known variable (did you mean MURMURATION_NODE_LISTEN?)
    TRACKER => ftp://x => TRACKER 'ftp://x' is refused; allowed: KEY@https://HOST:PORT
    SET_train__epochs => x => SET_train__epochs: train.epochs = 'x' is refused
    SET_train__epoch => 1 => SET_train__epoch: 'train.epoch' is not a known key
    SET_train => 1 => SET_train 'train=1' is refused; allowed: section.key=value
""")
def test_what_is_wrong_in_the_environment_is_named(name, value, line):
    assert f"MURMURATION_NODE_{line}" in refused([], {**PEERS, f"MURMURATION_NODE_{name}": value})


@cases("""
    written => line
    listen = "here" => listen in {} 'here' is refused; allowed: HOST:PORT
    rounds = 0 => rounds in {} '0' is refused; allowed: a whole number from 1 to 1000000
    rounds = 1.5 => rounds in {} '1.5' is refused
    rounds = [1] => rounds in {}: [1] is refused; allowed: text, a number, true or false
    open = 7 => open in {}: '7' is refused; allowed: true or false
    listn = 1 => listn in {} is not a known key (did you mean listen?); allowed: again, allow, alone
    config = 'x' => config in {} is not a known key
    set = 3 => set in {}: 3 is refused; allowed: a table, as in [set.train]
    set = {train = 3} => set in {}: train is no section; allowed: a key of a section
    set.train.epochs = 'x' => set.train.epochs in {}: train.epochs = 'x' is refused; allowed: a whole
    set.tarin.epochs = 1 => set.tarin.epochs in {}: 'tarin' is not a known section
    tracker = '127.0.0.1:9001' => both are given: MURMURATION_NODE_PEERS HOST:PORT,... and tracker in {} URL;
        give exactly one
    shard = '0/3' / data = 'x.csv' => data in {} 'x.csv' and shard in {} contradict each other
    allow = 'x' / open = true => allow in {} 'x' and open in {} contradict each other
    listen = '10.0.0.1:1' => listen in {} '10.0.0.1:1' is not on this machine, so say who may join
    listen = => is not valid TOML
""")
def test_what_is_wrong_in_the_file_is_named(tmp_path, written, line):
    path = file(tmp_path, written.replace(" / ", "\n"))
    assert line.replace("{}", path) in refused(["--config", path], PEERS)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "latin").write_bytes(b"key = '\xe9'")
    (tmp_path / "large").write_bytes(b"#" * ((1 << 20) + 1))
    for name, line in (
        ("no.toml", "cannot be read: No such file or directory"),
        ("", "cannot be read: Is a directory"),
        ("latin", "is not valid TOML: 'utf-8' codec"),
        ("large", "is refused: more than 1 MiB"),
        ("a\0b", "cannot be read: embedded null"),
    ):
        path = str(tmp_path / name)
        assert line in refused(["--config", path], PEERS)
        assert line in refused([], {**PEERS, "MURMURATION_NODE_CONFIG": path})


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
