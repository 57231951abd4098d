import math
from pathlib import Path

import pytest

from node.options import REPORTERS, PeerAddress, ReportTo, parse_arguments, read_options
from node.storage.allow_list import read_allow_list
from node.system.addresses import is_loopback, split_endpoint
from node.system.errors import ConfigError, UserError, shown
from protocol.wire.messages import ChargeCount
from tests.own_data import told
from tests.unit.node.cases import cases

KEY = "ab" * 32
OTHER = "cd" * 32
PEERS = "127.0.0.1:9001,127.0.0.1:9002"


def refused(*argv):
    return told(parse_arguments, argv)


def test_the_defaults():
    options = parse_arguments(["--peers", PEERS])
    assert options.peers == (PeerAddress("127.0.0.1:9001", None), PeerAddress("127.0.0.1:9002", None))
    assert options.task.task.name == "digits"
    for name in ("tracker", "listen", "data", "shard", "rounds", "out", "key", "allow"):
        assert getattr(options, name) is None
    assert (options.open, options.seed, options.json, options.debug) == (False, 0, False, False)
    assert parse_arguments(["--peers", PEERS, "--listen", "127.0.0.1:0"]).listen == "127.0.0.1:0"


def test_everything_given():
    argv = f"--tracker {KEY.upper()}@http://Tracker.Example:9000/ --listen [2001:db8::1]:9001 --shard 2/5"
    argv += " --rounds 7 --out o --key k --seed 3 --set train.epochs=1 --set train.rounds=9 --task digits"
    argv += " --json --debug"
    options = parse_arguments([*argv.split(), "--allow", "keys.txt"])
    assert (options.tracker, options.listen) == ("tracker.example:9000", "[2001:db8::1]:9001")
    assert options.tracker_key == bytes.fromhex(KEY)
    assert (options.shard, options.rounds, options.seed) == ((2, 5), 7, 3)
    assert (options.out, options.key, options.allow) == (Path("o"), Path("k"), Path("keys.txt"))
    assert (options.task.train.epochs, options.task.train.rounds) == (1, 9)
    assert (options.json, options.debug) == (True, True)


def test_a_reporter_whose_library_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(REPORTERS, "tensorboard", "no_such_module")
    monkeypatch.setitem(REPORTERS, "mlflow", "json")
    assert refused("--peers", PEERS, "--report", "mlflow:runs,tensorboard:tb") == (
        "--report 'tensorboard:tb' needs the package no_such_module, which is not installed: "
        "pip install 'murmuration-node[tensorboard]'"
    )
    options = parse_arguments(["--peers", PEERS, "--report", "mlflow:runs", "--linger", "60"])
    assert (options.reports, options.linger_s) == ((ReportTo("mlflow", Path("runs")),), 60.0)
    assert options.spent_before is None
    options = parse_arguments(["--peers", PEERS, "--spent-before", "12+1000000"])
    assert options.spent_before == ChargeCount(12, 1_000_000)


def test_pins():
    options = parse_arguments(["--peers", f"{KEY}@10.0.0.1:9001, {OTHER.upper()}@host.example:9002"])
    assert options.peers[0] == PeerAddress("10.0.0.1:9001", bytes.fromhex(KEY))
    assert options.peers[1] == PeerAddress("host.example:9002", bytes.fromhex(OTHER))


def test_help_tells_every_option_its_default_and_examples(capsys):
    with pytest.raises(SystemExit) as caught:
        parse_arguments(["--help"])
    assert caught.value.code == 0
    told = capsys.readouterr().out
    assert "python -m node --peers 127.0.0.1:9001" in told
    options = told.partition("examples:")[0].split("\n  --")[1:]
    names = " ".join(entry.split()[0] for entry in options)
    assert names == (
        "peers tracker listen allow names open relay tls task set data blank-person cells encoder shard "
        "rounds wait require-aggregation again yes out key spent-before seed alone json log log-level "
        "drain-timeout linger report config debug"
    )
    assert [entry for entry in options[2:] if "Default:" not in entry] == []


def test_blank_persons_are_a_key_of_the_task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(
        '[task]\nname = "t"\n[model]\nclass = "node.models:Linear"\n[data]\nperson = "who"\n'
    )
    argv = ["--peers", PEERS, "--task", "t.toml"]
    assert parse_arguments(argv).task.data.blank_person == "refuse"
    assert parse_arguments([*argv, "--blank-person", "own"]).task.data.blank_person == "own"


@cases("""
    argv => line
    --peers PEERS --blank-person own => --blank-person: data.blank_person = 'own' has no effect without
    --peers PEERS --blank-person some => --blank-person
    => neither is given: --peers HOST:PORT,... or --tracker KEY@URL; give exactly one of them
    --peers PEERS --tracker 127.0.0.1:1 => both are given: --peers
    --bogus => unrecognized arguments: --bogus; python -m node --help shows what is allowed
    --peer PEERS => unrecognized arguments: --peer
    --peers => argument --peers: expected one argument; python -m node --help
    --peers PEERS --task nope => task 'nope' is not known; allowed: digits
    --peers PEERS --set train.rounds=x => train.rounds = 'x' is refused; allowed: a whole
    --peers PEERS --shard 5/5 => --shard '5/5' is refused; allowed: I/N with I from 0 to N-1
    --peers PEERS --shard 0/0 => --shard '0/0' is refused
    --peers PEERS --shard 1 => --shard '1' is refused
    --peers PEERS --shard -1/5 => argument --shard: expected one argument
    --peers PEERS --shard 0/5 --data x.csv => --data 'x.csv' and --shard contradict
    --peers PEERS --open --allow a => --allow 'a' and --open contradict each other
    --peers PEERS --rounds 0 => --rounds '0' is refused; allowed: a whole number from 1
    --peers PEERS --rounds -1 => --rounds '-1' is refused
    --peers PEERS --rounds 1_0 => --rounds '1_0' is refused
    --peers PEERS --seed x => --seed 'x' is refused; allowed: a whole number from 0 to 4294967295
    --peers PEERS --wait long => --wait 'long' is refused; allowed: a whole number of seconds
    --peers PEERS --wait 2592001 => seconds from 0 to 2592000, or forever
    --peers PEERS --wait -1 => --wait '-1' is refused; allowed
    --peers PEERS --alone maybe => --alone 'maybe' is refused; allowed: a whole number of seconds from 1
    --peers PEERS --alone 0 => or no
    --peers PEERS --out= => --out '' is refused; allowed: a path
    --peers PEERS --linger x => --linger 'x' is refused; allowed: a whole number from 0
    --peers PEERS --spent-before 12 => --spent-before '12' is refused; allowed: the two numbers
    --peers PEERS --spent-before 1+1000001 => such as 12+0, each at most 1000000
    --peers PEERS --report x:tb => allowed: NAME:DIR, NAME being tensorboard or mlflow
    --peers PEERS --report mlflow => --report 'mlflow' is refused; allowed: NAME:DIR
    --peers PEERS --report mlflow: => --report 'mlflow:' is refused; allowed: NAME:DIR
    --peers PEERS,127.0.0.1:9001 => the address 127.0.0.1:9001 occurs twice
    --peers KEY@127.0.0.1:1,KEY@127.0.0.1:2 => the pinned key KEY occurs twice
    --peers abcd@127.0.0.1:1 => the pinned key 'abcd' is refused; allowed: KEY@HOST:PORT
    --peers KEYg@127.0.0.1:1 => is refused; allowed: KEY@HOST:PORT
    --peers KEY@ => --peers '' is refused; allowed: HOST:PORT
    --peers PEERS --open --listen 0.0.0.0:9001 => give the address by which they reach this one
    --peers PEERS --open --listen [::]:9001 => give the address by which they reach this one
    --tracker 127.0.0.1:0 => PORT from 1 to 65535
""")
def test_bad_arguments(argv, line):
    words = argv.replace("KEYg", KEY[:-1] + "g").replace("KEY", KEY).replace("PEERS", PEERS).split()
    assert line.replace("key KEY", f"key {KEY}") in refused(*words)


def test_more_peers_than_a_group_can_have():
    many = [f"127.0.0.1:{port}" for port in range(9001, 9066)]
    assert len(parse_arguments(["--peers", ",".join(many[:64])]).peers) == 64
    assert refused("--peers", ",".join(many)) == (
        "--peers names 65 peers; allowed: at most 64; larger swarms come later"
    )


@pytest.mark.parametrize(
    "written",
    [
        *("", "localhost", "127.0.0.1", ":9001", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:0", "a:"),
        *("::1:9001", "[127.0.0.1]:9001", "[::1]9001", "[fe80::1%eth0]:9001", "300.1.1.1:9001", "127.1:9001"),
        *("a b:9001", "a-:9001", "a..b:9001", "http://127.0.0.1:9001", f"{'a' * 64}:9001", "127.0.0.1:-1"),
        *("127.0.0.1:\u0661", "h\u00f6st:9001", "127.0.0.1:9001,"),
    ],
)
def test_bad_addresses(written):
    message = refused("--peers", written)
    assert message.startswith("--peers ")
    assert "is refused; allowed: HOST:PORT (PORT from 1 to 65535" in message


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://h:1/path",
            "http://h:1/path",
            "ftp://h:1",
            "@http://h:1",
            "abc@http://h:1",
            "https://u@h:1",
        ),
        *(f"https://{KEY}@h:1", f"{KEY}@{OTHER}@h:1", f"{KEY}0@h:1", f" {KEY}@h:1", f"{KEY}@h:1/path"),
    ],
)
def test_bad_tracker_urls(url):
    assert refused("--tracker", url) == (
        f"--tracker {shown(url)} is refused; allowed: KEY@https://HOST:PORT, KEY@http://HOST:PORT or "
        "KEY@HOST:PORT, KEY being the 64 hex digits of the tracker's public key, needed off this machine"
    )


@pytest.mark.parametrize("url", ["https://h:1", "http://h:1/", "h:1"])
def test_off_loopback_a_tracker_has_a_key(url):
    trusting = ("--allow", "keys.txt")
    assert refused("--tracker", url, *trusting) == (
        "--tracker 'h:1' is not on this machine, so give its key: KEY@URL, as the tracker prints it "
        "at its start, or --open to accept the key that it shows first"
    )
    pinned = parse_arguments(["--tracker", f"{KEY}@{url}", *trusting])
    assert (pinned.tracker, pinned.tracker_key) == ("h:1", bytes.fromhex(KEY))
    assert parse_arguments(["--tracker", url, "--open"]).tracker_key is None
    local = parse_arguments(["--tracker", "http://127.0.0.1:1", *trusting])
    assert (local.tracker, local.tracker_key) == ("127.0.0.1:1", None)


def test_a_tracker_s_key_may_stand_in_the_environment_or_in_a_file(tmp_path):
    written = f"{KEY}@https://h:1"
    (tmp_path / "c.toml").write_text(f'tracker = "{written}"\nallow = "keys.txt"\n')
    for argv, environ in (
        (["--config", str(tmp_path / "c.toml")], {}),
        (["--allow", "keys.txt"], {"MURMURATION_NODE_TRACKER": written}),
    ):
        options = read_options(argv, environ)
        assert (options.tracker, options.tracker_key) == ("h:1", bytes.fromhex(KEY))


OFF_LOOPBACK = [
    (["--peers", "10.0.0.1:9001"], "--peers '10.0.0.1:9001'"),
    (["--peers", f"127.0.0.1:9001,{KEY}@host.example:9002"], "--peers 'host.example:9002'"),
    (["--peers", PEERS, "--listen", "192.168.1.2:0"], "--listen '192.168.1.2:0'"),
    (["--tracker", f"{KEY}@http://tracker.example:9000"], "--tracker 'tracker.example:9000'"),
    (["--tracker", "127.0.0.1:9000", "--listen", "[2001:db8::1]:1"], "--listen '[2001:db8::1]:1'"),
]


@pytest.mark.parametrize(("argv", "told"), OFF_LOOPBACK)
def test_off_loopback_somebody_must_say_who_may_join(argv, told):
    assert refused(*argv) == (
        f"{told} is not on this machine, so say who may join: "
        "--allow FILE, every peer pinned as KEY@HOST:PORT, or --open for anyone"
    )
    assert parse_arguments([*argv, "--open"]).open
    assert parse_arguments([*argv, "--allow", "keys.txt"]).allow == Path("keys.txt")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "[::1]"])
def test_on_loopback_anyone_may_join(host):
    endpoint = parse_arguments(["--peers", f"{host}:9001"]).peers[0].endpoint
    assert is_loopback(endpoint)
    assert split_endpoint(endpoint) == (host.strip("[]").lower(), 9001)


def test_an_allow_list(tmp_path):
    path = tmp_path / "keys.txt"
    path.write_text(f"\ufeff# friends\n\n{KEY}  # Ada\n  {OTHER.upper()}\r\n{KEY}\n", "utf-8")
    assert read_allow_list(path) == {bytes.fromhex(KEY), bytes.fromhex(OTHER)}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "names no key; allowed: 64 hex digits a line"),
        (b"# nobody\n\n", "names no key"),
        (f"{KEY}\n\nabcd\n".encode(), "line 3: 'abcd' is no key; allowed: 64 hex digits, # for comments"),
        (f"{KEY} {OTHER}\n".encode(), "line 1: 'abab"),
        (b"\xff\xff", "cannot be read: 'utf-8' codec can't decode"),
    ],
)
def test_a_bad_allow_list(tmp_path, content, line):
    path = tmp_path / "keys.txt"
    if content is not None:
        path.write_bytes(content)
    message = told(read_allow_list, path)
    assert message.startswith("allow-list '")
    assert line in message


def test_an_error_is_one_line_whatever_it_quotes():
    error = UserError("a\nb\t\x1b[31mc\r\n")
    assert str(error) == "a b ?[31mc"
    assert (error.status, ConfigError("x").status) == (1, 2)


@pytest.mark.parametrize(
    ("more", "wait_s"), [("", 600.0), ("--wait 0", 0.0), ("--wait 60", 60.0), ("--wait forever", math.inf)]
)
def test_the_wait_for_the_first_group(more, wait_s):
    options = parse_arguments(["--peers", PEERS, *more.split()])
    assert (options.wait_s, options.require_aggregation) == (wait_s, False)
    assert parse_arguments(["--peers", PEERS, "--require-aggregation"]).require_aggregation
