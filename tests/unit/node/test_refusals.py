"""Every error about a user's disk, folders, names and files: the words, the status, no traceback."""

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from node.__main__ import main
from node.app.run import prepare, run
from node.cli.error_handling import guarded
from node.cli.logs import NO_LOG, complain
from node.key import __main__ as key
from node.net.incoming.listening import listen
from node.options import parse_arguments
from node.runtime.record.ending import Alone
from node.storage.database import Database, create_database
from node.storage.folder_lock import Lock
from node.system.errors import UserError, database_advice, refusal
from node.tracker import __main__ as tracker
from tests.unit.node.cases import cases

ROOT = Path(__file__).resolve().parents[3]
QUICK = (
    "--wait",
    "0",
    "--set",
    "aggregation.group_timeout_s=0.05",
    "--set",
    "train.epochs=1",
    "--rounds",
    "1",
)
KEPT = "what is stored stays, and the same command goes on from there"


def node(folder, *more):
    """Returns the arguments of a lone node."""
    argv = f"--peers 127.0.0.1:1 --listen 127.0.0.1:0 --shard 0/20 --out {folder}"
    return [*argv.split(), *more]


def lived(folder):
    """Makes a node's folder after one round of its own."""
    with pytest.raises(Alone):
        run(parse_arguments(node(folder, *QUICK)))
    return folder


def again(folder):
    """Starts the same node for one more round of its own, as from a shell."""
    return lambda: main(node(folder, *QUICK))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_no_fault_of_the_program(one_line):
    def fill():
        Path("/dev/full").write_text("x")
        return 0

    line = one_line(guarded, fill, False, complain(NO_LOG, "node"), status=1)
    assert line == f"error: No space left on device; make room there; {KEPT}"


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EROFS, "it can only be read: name another folder"),
        (errno.EACCES, "give this user the right to it"),
        (errno.EMFILE, "raise the limit on open files (ulimit -n)"),
        (errno.EIO, "the disk fails: look at the system's log"),
        (errno.EDQUOT, "make room there, or raise the quota"),
        (errno.EFBIG, "raise the limit on the size of files (ulimit -f)"),
    ],
)
def test_what_the_system_refuses_comes_with_what_to_do(number, advice):
    said = refusal(OSError(number, os.strerror(number), "runs/a/state"))
    assert said == f"runs/a/state: {os.strerror(number)}; {advice}; {KEPT}"
    long = refusal(OSError(number, os.strerror(number), "x" * 300 + "/state"))
    assert long.startswith("..." + "x" * 191 + f"/state: {os.strerror(number)}; "), "the end is told"


def test_other_errors_are_faults_of_the_program():
    assert refusal(ValueError("x")) is None
    assert refusal(OSError("no number")) is None
    assert refusal(ConnectionResetError(errno.ECONNRESET, "reset")) is None
    assert refusal(MemoryError()) == f"memory ran out (it is not said where); free some; {KEPT}"


def test_of_a_renaming_the_new_name_is_told(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(IsADirectoryError) as caught:
        (tmp_path / "file").replace(tmp_path / "folder")
    assert refusal(caught.value).startswith(
        f"{tmp_path / 'folder'}: Is a directory; a folder has the name of"
    )


def test_a_database_on_a_full_disk_is_told_to_get_room(tmp_path):
    create_database(tmp_path / "state.db", {})
    database = Database(tmp_path / "state.db")
    pages = database.rows("pragma page_count")[0][0]
    database.rows(f"pragma max_page_count = {pages}")
    with pytest.raises(UserError) as caught, database.step():
        database.set_facts(large=b"x" * 100_000)
    assert str(caught.value) == (
        f"{tmp_path / 'state.db'} cannot be used: database or disk is full; see that its disk has room, and "
        "start again"
    )
    assert caught.value.status == 1
    assert database.fact("large") is None
    with database.step():
        database.set_facts(small=1)  # the step that failed is over
    database.close()
    assert database_advice(sqlite3.Error()) == "start with another --out"


@pytest.mark.parametrize(("name", "why"), [("file", "File exists"), ("file/run", "Not a directory")])
def test_an_out_that_can_not_be_is_named(tmp_path, one_line, name, why):
    (tmp_path / "file").touch()
    line = one_line(main, node(tmp_path / name))
    assert line == f"error: --out {tmp_path / name} cannot be used: {why}"


def test_a_damaged_history_loses_its_damaged_lines_alone(tmp_path, one_line):
    out = lived(tmp_path / "a")
    whole = (out / "history.jsonl").read_bytes()
    (out / "history.jsonl").write_bytes(b"\xff\xfe\x00garbage\n" + whole)
    assert "1 round alone" in one_line(again(out), status=1)
    damaged = b"\xff\xfe\x00garbage\n" + whole
    assert (out / "history.jsonl").read_bytes().startswith(damaged)
    assert len((out / "history.jsonl").read_bytes().splitlines()) == len(damaged.splitlines()) + 1


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path, one_line):
    out = lived(tmp_path / "a")
    for name in ("history.jsonl", "summary.json", "model.safetensors"):
        kept = (out / name).read_bytes()
        (out / name).unlink()
        (out / name).mkdir()
        line = one_line(again(out), status=1)
        advice = "Is a directory; a folder has the name of a file: move it away"
        assert line == f"error: {out / name}: {advice}; {KEPT}"
        (out / name).rmdir()
        (out / name).write_bytes(kept)


@pytest.mark.parametrize(
    ("name", "told_", "why"),
    [
        ("folder", "read", "Is a directory"),
        ("file/key", "written", "Not a directory"),
        ("none/key", "written", "No such file or directory"),
        ("x" * 300, "read", "File name too long"),
    ],
)
def test_a_key_file_that_can_not_be_is_named(tmp_path, one_line, name, told_, why):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    argv = node(tmp_path / "out", "--key", str(tmp_path / name))
    line = one_line(main, argv)
    assert line == f"error: the key file {tmp_path / name} cannot be {told_}: {why}"


def test_a_key_that_does_not_fit_on_the_disk_leaves_no_half(tmp_path):
    """In its own process, which may write no byte into a file."""
    path = tmp_path / "node.key"
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
        "from node.key.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", limited, str(path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"error: the key file {path} cannot be written: File too large\n"
    assert not path.exists()


def test_the_key_command_names_what_is_no_path(tmp_path, one_line):
    assert one_line(key.main, [""]) == "error: FILE '' is refused; allowed: a path"
    assert "the following arguments are required: FILE" in one_line(key.main, [])
    (tmp_path / "file").touch()
    line = one_line(key.main, [str(tmp_path / "file" / "a" / "node.key")])
    assert "file/a/node.key cannot be read: Not a directory" in line


@cases("""
    listen_to => status => line
    no-such-host.invalid:9001 => 2 => the host does not resolve (.*check the name, or give an address of this
        machine$
    192.0.2.1:9001 => 1 => cannot assign requested address; give an address of this machine$
""")
def test_a_listen_where_this_machine_is_not_is_named(listen_to, status, line):
    with pytest.raises(UserError, match=f"^--listen {listen_to}: {line.replace('(', '[(]')}") as caught:
        listen(listen_to)
    assert caught.value.status == int(status)


@cases("""
    argv => line
    --peers HERE:1,HERE:2,HERE:3,HERE:4,HERE:5 --listen HERE:6 --shard 0/5 --set
        privacy.mechanism=distributed-dp-sgd --set privacy.epsilon=3 --set privacy.honest=6 => --peers names 5
        peers, 6 with this node, and privacy.honest = 6 needs at least 7; name more peers, or lower
        privacy.honest
    --peers 192.0.2.1:9001 --open --shard 0/3 => 192.0.2.1:9001 is another machine: say where it can reach
        this node with --listen HOST:PORT
""")
def test_peers_that_can_not_be_are_refused_before_anything_is_written(tmp_path, one_line, argv, line):
    words = [*argv.replace("HERE", "127.0.0.1").split(), "--out", str(tmp_path / "a")]
    assert one_line(main, words) == f"error: {line}"
    assert not (tmp_path / "a").exists()


@cases("""
    argv => line
    => --listen HOST:PORT is missing: say where peers reach this tracker
    --listen 127.0.0.1 => --listen '127.0.0.1' is refused; allowed: HOST:PORT (PORT from 0 to 65535
    --listen 0.0.0.0:1 => --listen '0.0.0.0:1' is refused: other machines cannot reach 0.0.0.0
    --listen 10.0.0.1:1 => --listen '10.0.0.1:1' is not on this machine alone, so say who may come: --allow
        FILE, or --op
    --listen HERE --announce relay.example => --listen '127.0.0.1:0' is not on this machine alone
    --listen 0.0.0.0:1 --relay => --listen '0.0.0.0:1' is refused: other machines cannot reach 0.0.0.0
    --listen HERE --announce 0.0.0.0 => --announce '0.0.0.0:0' is refused: other machines cannot reach 0.0.0.0
    --listen HERE --announce a:b => --announce 'a:b' is refused; allowed: HOST:PORT (PORT from 1
    --listen HERE --relay --relay-rate 0 => --relay-rate '0' is refused; allowed: a whole number from 1
    --listen HERE --relay --relay-day 1.5 => --relay-day '1.5' is refused; allowed: a whole number from 1
    --listen HERE --open --allow a => --allow and --open contradict each other: give one of them
    --listen HERE --min-peers 2 => --min-peers '2' is refused; allowed: a whole number
    --listen HERE --allow= => --allow '' is refused; allowed: a path
    --listen HERE --allow no => allow-list 'no' cannot be read: No such file or dir
    --listen HERE --log xml => --log 'xml' is refused; allowed: text or json
    --listen HERE --log-level x => --log-level 'x' is refused; allowed: debug, info,
    --peers HERE => unrecognized arguments: --peers 127.0.0.1:0; python -m node.tracker --help
""")
def test_a_trackers_bad_arguments(argv, line, one_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = argv.replace("HERE", "127.0.0.1:0").split()
    assert one_line(tracker.main, words).startswith(f"error: {line}")


@cases("""
    more => line
    --drain-timeout=-1 => --drain-timeout '-1' is refused; allowed: a whole number from 0 to 3600
    --drain-timeout soon => --drain-timeout 'soon' is refused
    --relay => --relay needs an address that others reach by HTTPS: give --listen HOST:PORT beyond this
        machine, or --tls on
    --log= => --log '' is refused; allowed: text or json
    --log-level all => --log-level 'all' is refused; allowed: debug, info, warning, error
""")
def test_a_nodes_bad_arguments(more, line, one_line, tmp_path):
    assert one_line(main, node(tmp_path / "a", *more.split())).startswith(f"error: {line}")


def test_only_debug_shows_a_traceback(capsys, one_line, tmp_path):
    argv = [
        "--peers",
        "127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
        "--out",
        str(tmp_path / "a"),
        "--data",
        "no.csv",
    ]
    assert one_line(main, argv).startswith("error: data file 'no.csv' cannot be read")
    assert main([*argv, "--debug"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_folder_in_use_is_named(tmp_path, one_line):
    out = tmp_path / "a"
    lock = Lock(out)
    line = one_line(main, node(out), status=1)
    assert line.startswith(f"error: --out {out} is in use by another node")
    assert line.endswith(": end that one, or give another --out")
    lock.release()


def test_a_path_with_a_zero_in_it_can_only_come_from_a_file(tmp_path, one_line):
    (tmp_path / "t.toml").write_text('data = "a\\u0000.csv"\npeers = "127.0.0.1:1"\n')
    line = one_line(main, ["--config", str(tmp_path / "t.toml")])
    assert line == f"error: data in {tmp_path / 't.toml'} 'a\\x00.csv' is refused; allowed: a path"
    (tmp_path / "t.toml").write_text('peers = "127.0.0.1:1"\n[set.data]\nsource = "a\\u0000.csv"\n')
    options = parse_arguments(["--config", str(tmp_path / "t.toml")])
    with pytest.raises(UserError, match=r"a\\x00\.csv' cannot be read: embedded null byte"):
        prepare(options)
