import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from node.app.run import prepare
from node.app.start_checks import check_start
from node.check import __main__ as check
from node.check.checks import rounds_within
from node.net.incoming.listening import listen
from node.net.tls import make_tls
from node.options import parse_arguments
from node.runtime.known_tracker import KnownTracker
from node.runtime.privacy.budget import make_mechanism
from node.storage.key_file import new_seed, write_key
from node.system import free_memory
from node.system.errors import ConfigError
from node.task.load import load_task
from node.task.step_defaults import step_defaults
from protocol.crypto.node_key import NodeKey
from tests.e2e.processes import free_endpoint
from tests.openings import after_opening
from tests.own_data import COLUMNS, IMAGES, TABLE, picture, ward
from tests.unit.node.cases import cases, toml_file

HERE, THERE, YONDER = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
WARD = {**TABLE, "columns": [*COLUMNS[:3], {**COLUMNS[3], "mean": 20468.0, "std": 8.0}]}
"""Days in January 2026, as the ward's file has."""
TASK = {
    "task": {"name": "ward"},
    "model": {"class": "node.models:Linear", "args": {"inputs": 7, "outputs": 2}},
    "data": {"schema": WARD},
}


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Writes a task file with TASK's sections and others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward.csv").write_text(ward(300))

    def write(**sections):
        (tmp_path / "task.toml").write_text(toml_file({**TASK, **sections}))
        return "task.toml"

    return write


@pytest.fixture
def run(capsys):
    def run(*argv):
        """Runs the check, on ward.csv unless told; returns (status, findings by subject, lines, errors)."""
        data = () if "--data" in argv or argv[:1] != ("task.toml",) else ("--data", "ward.csv")
        status = check.main([str(part) for part in (*argv, *data)])
        said = capsys.readouterr()
        lines = said.out.splitlines()
        found = [
            line.split(maxsplit=1) for line in lines if line.split(" ")[0] in {"ok", "warning", "problem"}
        ]
        by_subject = {text.split(": ")[0]: (level, text) for level, text in found}
        return status, by_subject, lines, after_opening(said.err).splitlines()

    return run


@pytest.fixture
def finds(run):
    def finds(subject, status, level, words, *argv):
        """Checks what a check finds about a subject, and returns all findings."""
        ended, found, _, _ = run(*argv)
        assert (ended, found[subject][0]) == (status, level), found
        assert words in found[subject][1]
        return found

    return finds


def test_free_text_that_the_task_does_not_read_is_told(task, run, tmp_path):
    task()
    header, *rows = ward(300).splitlines()
    noted = (f"{row},seen on day {place} and was well" for place, row in enumerate(rows))
    (tmp_path / "noted.csv").write_text("\n".join([f"{header},note", *noted]))
    _, _, lines, _ = run("task.toml", "--data", "noted.csv", "--out", "out")
    assert (
        sum(line.startswith("  free text is left out: 'note'; what it says is lost: ") for line in lines) == 1
    )
    assert not any("free text" in line for line in run("task.toml", "--out", "out")[2])


def test_everything_is_fine(task, run):
    status, found, lines, errors = run(task(), "--out", "out")
    assert (status, errors, lines[-1]) == (0, [], "nothing found that would fail")
    assert {what: level for what, (level, _) in found.items()} == dict.fromkeys(
        ("task", "data", "model", "budget", "memory", "learning", "key"), "ok"
    )
    assert found["task"][1] == "task: ward, 20 rounds"
    assert found["data"][1] == (
        "data: ward.csv: 300 rows, 4 columns as 7 features, target 'outcome' (2 classes); 257 to train on, "
        "43 held back for validation"
    )
    assert "    ward     category of 2 values" in lines
    assert found["model"][1] == "model: node.models:Linear, 16 parameters, takes these rows"
    assert found["budget"][1] == "budget: no privacy mechanism, nothing is counted"
    assert found["key"][1].startswith(
        "key: out/node.key is made at the first start; python -m node.key out/node.key"
    )


def test_what_exact_sums_open_is_told(task, finds):
    words = "each member's computer sees exact totals of every pair of columns, and"
    found = finds("opened", 0, "warning", words, task(model={"class": "node.models:Additive"}))
    assert found["task"][1] == "task: ward, exact sums of the same members"
    assert "sums of up to 2772 words" in found["memory"][1]


def test_a_lost_column_is_a_problem_though_too_few_rows_are_held_back_as_well(task, tmp_path, finds):
    none, other = ("--set", "data.test_fraction=1e-9"), ward(300).replace("west", "W").replace("east", "E")
    finds("data", 0, "warning", "0 held back for validation: too few rows to validate", task(), *none)
    (tmp_path / "ward.csv").write_text(other)
    words = "ward: 300 of 300 values are none of the task's 'east', 'west'"
    finds("data", 2, "problem", words, task(), *none)


def test_a_built_in_task(finds):
    finds("task", 0, "ok", "task: digits, 3 rounds", "digits", "--shard", "0/5", "--rounds", "3")
    finds("data", 2, "problem", "give --shard I/N", "digits")


def test_data_that_does_not_fit_is_a_problem(task, run, tmp_path):
    (tmp_path / "bad.csv").write_text(ward(300).replace("yes", "maybe"))
    status, found, lines, _ = run(task(), "--data", "bad.csv")
    assert (status, lines[-1], found["data"][0], "model" in found) == (2, "1 problem", "problem", False)
    assert ", column 'smoker': 'maybe' is not yes or no" in found["data"][1]


def test_a_column_without_values_and_a_class_without_rows_are_warnings(task, finds, tmp_path):
    head, *rows = (line.split(",") for line in ward(100).splitlines())
    lines = [",".join(row) for row in (head, *([*row[:2], "", *row[3:]] for row in rows))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    words = "; no value at all in ward: is the column named or filled otherwise?"
    finds("data", 0, "warning", words, task(), "--data", "a.csv")
    (tmp_path / "b.csv").write_text(ward(100).replace(",ill", ",well"))
    words = "; some classes have no row here: that is fine if other peers have them"
    finds("data", 0, "warning", words, task(), "--data", "b.csv")


def test_a_model_that_does_not_take_the_rows_or_whose_body_does_not_fit(task, finds):
    linear = {"class": "node.models:Linear", "args": {"inputs": 6, "outputs": 2}}
    words = "model: model node.models:Linear does not take rows of 7 features"
    finds("model", 2, "problem", words, task(model=linear))
    legs = {**linear, "args": {"inputs": 7, "outputs": 2}, "body": "legs"}
    finds("training", 2, "problem", "model.body = 'legs' is no part of the model", task(model=legs))


def test_more_names_than_nodes_tell_each_other(task, finds, tmp_path, monkeypatch):
    (tmp_path / "deep.py").write_text(
        "from torch import nn\n"
        "class Deep(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        for number in range(12):\n"
        "            self.add_module(f'{number:01000}', nn.Linear(7, 2 if number == 11 else 7))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = "which nodes tell each other; allowed: at most 16384; choose fewer columns"
    finds("model", 2, "problem", words, task(model={"class": "deep:Deep", "args": {}}))


PRIVATE = {"mechanism": "dp-sgd", "epsilon": 8.0}


def test_a_budget_that_lasts_and_one_that_ends_before_the_rounds_do(task, finds):
    path = task(privacy=PRIVATE, train={"rounds": 5, "batch_size": 64})
    words = "budget: epsilon 8 at delta 1e-05 lasts all 5 rounds, which cost 7.9"
    assert finds("budget", 0, "ok", words, path)["noise"][0] == "ok"
    words = (
        "budget: epsilon 8 at delta 1e-05 lasts 5 of 9 rounds, after which this node offers nothing and "
        "learns from the others; raise privacy.epsilon, or run the 5 of the task"
    )
    finds("budget", 0, "warning", words, path, "--rounds", "9")
    loud = task(privacy={**PRIVATE, "epsilon": 0.1}, train={"rounds": 5, "batch_size": 8})
    words = "times what one row can move it, so little will be learned"
    finds("noise", 0, "warning", words, loud)


def test_how_gradients_of_single_rows_are_computed(task, finds, run, tmp_path, monkeypatch):
    """What a node would refuse at its start is a problem here; what it would be slow at is a warning."""
    (tmp_path / "layers.py").write_text(
        "from torch import nn\n"
        "class Normed(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(7, 7), nn.BatchNorm1d(7), nn.Linear(7, 2))\n"
        "class Bent(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(7, 7), nn.PReLU(), nn.Linear(7, 2))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    bent, normed = ({"class": f"layers:{name}", "args": {}} for name in ("Bent", "Normed"))
    finds("gradients", 0, "ok", "", task(privacy=PRIVATE))
    words = "PReLU has no rule of its own"
    finds("gradients", 0, "warning", words, task(privacy=PRIVATE, model=bent))
    words = "layer '1' (BatchNorm1d) takes its statistics from the batch"
    finds("training", 2, "problem", words, task(privacy=PRIVATE, model=normed))
    assert "gradients" not in run(task())[1]


SHARED = {"mechanism": "distributed-dp-sgd", "epsilon": 3.0}


def test_what_was_chosen_for_steps_with_shared_noise(task, finds):
    chosen = step_defaults(9000, 3.0, frozen_body=False)
    words = (
        f"steps: {chosen.steps} of them, a round is {chosen.report_every}; each has {chosen.expected_batch} "
        f"of about 9000 rows of all peers, in the mean; sgd, learning rate {chosen.learning_rate:g}, "
        "gradients clipped to 1; with 3 members the noise is 0."
    )
    finds("steps", 0, "ok", words, task(privacy=SHARED, train={"expected_rows": 9000}))
    drowned = task(privacy={**SHARED, "epsilon": 0.001}, train={"expected_rows": 900})
    finds("steps", 0, "warning", "a smaller model, or more rows", drowned)


@pytest.mark.parametrize(("epsilon", "level"), [(300.0, "ok"), (1.0, "warning")])
def test_what_counts_of_rows_cost_and_whether_their_noise_drowns_them(task, run, epsilon, level):
    privacy = {**PRIVATE, "epsilon": epsilon, "metric_share": 0.5}
    path = task(privacy=privacy, train={"rounds": 10}, aggregation={"swarm_metric": "sums"})
    _, found, _, _ = run(path)
    assert found["metric of all"][0] == level
    text = found["metric of all"][1]
    assert "every 5 rounds, of 43 test rows here; noise covers them" in text
    alone = {300.0: "6.6", 1.0: "0.5"}[epsilon]  # noise is at least what one row moves
    assert f"2 such offers would by themselves cost epsilon {alone};" in text
    assert "with 3 members each number in their sum is off by about" in text
    assert text.endswith("or count rarely") == (level == "warning")
    assert "with their counts" in found["budget"][1]


def test_rounds_within_a_budget_are_what_the_node_affords():
    task = load_task("digits", ["privacy.mechanism=ldp", "train.rounds=4", "privacy.epsilon=500"])
    mechanism = make_mechanism(task, [("w", (10,))], 100)
    assert [rounds_within(mechanism, rounds) for rounds in (1, 4, 5, 50)] == [1, 4, 4, 4]


def test_memory_that_is_not_there(task, finds, monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(free_memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(free_memory, "_LIMITS", (tmp_path / "most", tmp_path / "used"))
    for free, status, level, words in (
        (1 << 10, 2, "problem", ", but 0.00 GiB is free; take fewer rows"),
        (1 << 19, 0, "warning", "; 0.50 GiB is free"),
        (1 << 24, 0, "ok", "; 16.00 GiB is free"),
    ):
        meminfo.write_text(f"MemTotal: 99 kB\nMemAvailable: {free} kB\n")
        finds("memory", status, level, words, task())
    (tmp_path / "used").write_text("400\n")
    for most, free in (("1000\n", 600), ("max\n", 1 << 34)):  # a container's limit counts
        (tmp_path / "most").write_text(most)
        assert free_memory.free_bytes() == free
    meminfo.unlink()
    (tmp_path / "most").unlink()
    finds("memory", 0, "ok", "; how much is free is not known here", task())


def test_a_port_that_is_taken(task, finds):
    endpoint = free_endpoint()
    with closing(listen(endpoint)):
        words = (
            f"port: --listen {endpoint}: address already in use; end what uses the port, or listen "
            "elsewhere (port 0 takes a free one)"
        )
        finds("port", 2, "problem", words, task(), "--listen", endpoint)
    finds("port", 0, "ok", f"port: {endpoint} can be listened on", task(), "--listen", endpoint)


def test_keys_and_lists(task, finds, tmp_path):
    seed = new_seed()
    write_key(tmp_path / "k", seed)
    argv = (task(), "--key", "k", "--allow", "list")
    (tmp_path / "list").write_text("ab" * 32 + "\n" + "cd" * 32 + "\n")
    found = finds("key", 0, "ok", " in k, readable by its owner alone", *argv)
    assert found["allow-list"] == ("ok", "allow-list: list names 2 keys")
    assert seed.hex() not in str(found)
    (tmp_path / "k").chmod(0o644)
    (tmp_path / "list").write_text("ab" * 32)
    words = "key: the key file k can be read by others (mode 0644); run: chmod 600 k"
    assert finds("key", 2, "problem", words, *argv)["allow-list"][1] == (
        "allow-list: list names 1 key; a round needs 3 peers, this one among them: add the others' keys"
    )
    (tmp_path / "list").write_text("no key")
    finds("allow-list", 2, "problem", "allow-list 'list', line 1: 'no key' is no key", *argv)


class _Node(BaseHTTPRequestHandler):
    """A node whose server's answers the test chooses."""

    def do_GET(self):
        self.send_response_only(200)
        self.send_header("Date", formatdate(self.server.time_s, usegmt=True))
        self.end_headers()
        self.wfile.write(self.server.body)


@pytest.fixture
def node():
    with HTTPServer(("127.0.0.1", 0), _Node) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("body", "ahead", "level", "words"),
    [
        (b'{"task": "ward"}', 5, "ok", "answers, its clock agrees to within a minute"),
        (b'{"task": "loan"}', 5, "problem", "runs the task 'loan'; take 'ward' there, or that one here"),
        (b"no JSON", 5, "ok", "answers, its clock agrees to within a minute"),
        (
            b'{"task": "ward"}',
            600,
            "warning",
            "its clock is 600 s ahead of this one; set both by a time server",
        ),
        (b'{"task": "ward"}', -90, "warning", "its clock is 90 s behind this one; set both by a time server"),
    ],
)
def test_peers_that_answer_and_peers_that_do_not(task, finds, node, monkeypatch, body, ahead, level, words):
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    endpoint = f"127.0.0.1:{node.server_port}"
    node.body, node.time_s = body, 1_800_000_000 + ahead
    status, peer = 2 if level == "problem" else 0, f"peer {endpoint}"
    found = finds(peer, status, level, f"{peer}: {words}", task(), *others(endpoint))
    assert found[f"peer {THERE}"][0] == "warning"
    silent = f"peer {THERE}: nobody answers (Connection refused); start it, or"
    assert found[f"peer {THERE}"][1].startswith(silent)


def others(endpoint, *tls):
    """Returns the arguments of a node whose first peer is at the endpoint."""
    return (*tls, "--listen", "127.0.0.1:0", "--peers", f"{endpoint},{THERE},{YONDER}")


@contextmanager
def answering(answer):
    """Serves one connection with `answer`; yields the endpoint."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve():
            with closing(server.accept()[0]) as link:
                answer(link)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_peer_that_speaks_no_http(task, finds):
    def answer(link):
        link.recv(1)
        link.sendall(b"\x15\x03\x03\x00\x02\x02\x16")

    words = (
        ": the program there does not answer without TLS; use the same --tls at both ends, unless it is "
        "another program"
    )
    with answering(answer) as endpoint:
        finds(f"peer {endpoint}", 0, "warning", words, task(), *others(endpoint))


def test_peers_are_asked_side_by_side(task, run):
    """Ten nodes that answer only after all of them were asked."""
    others = 10
    together = threading.Barrier(others)

    class Waiting(_Node):
        def do_GET(self):
            together.wait(20)
            super().do_GET()

    with ExitStack() as stack:
        servers = [stack.enter_context(HTTPServer(("127.0.0.1", 0), Waiting)) for _ in range(others)]
        threads = [threading.Thread(target=server.handle_request) for server in servers]
        for server, thread in zip(servers, threads, strict=True):
            server.body, server.time_s = b'{"task": "ward"}', time.time()
            thread.start()
        endpoints = [f"127.0.0.1:{server.server_port}" for server in servers]
        argv = ("--listen", "127.0.0.1:0", "--peers", ",".join(endpoints))
        status, found, _, _ = run(task(), *argv)
        for thread in threads:
            thread.join()
    assert (status, [found[f"peer {endpoint}"][0] for endpoint in endpoints]) == (0, ["ok"] * others)


def test_a_peer_that_answers_for_ever_is_not_waited_for(task, finds, monkeypatch):
    """It sends a byte at a time: each comes in time, and there is always another."""
    monkeypatch.setattr("node.check.probe.PATIENCE_S", 0.5)

    def answer(link):
        link.settimeout(0.01)
        with suppress(OSError):
            while True:
                link.sendall(b"y")
                with suppress(TimeoutError):
                    if not link.recv(1 << 16):
                        break

    with answering(answer) as endpoint:
        finds(f"peer {endpoint}", 0, "warning", "", task(), *others(endpoint))


KEY, OTHER = NodeKey(b"1" * 32), NodeKey(b"2" * 32)


@pytest.fixture
def under_tls(node):
    """The same node under TLS, with a certificate that KEY vouches for."""
    context = make_tls(KEY, "on", HERE, lambda _: frozenset()).server
    node.socket = context.wrap_socket(node.socket, server_side=True, do_handshake_on_connect=False)
    node.body, node.time_s = b'{"task": "ward"}', time.time()
    return f"127.0.0.1:{node.server_port}"


@pytest.mark.parametrize("pin", [f"{KEY.public.hex()}@", ""])
def test_a_peer_under_tls(task, finds, under_tls, pin):
    words = f"peer {under_tls}: answers under TLS, its clock agrees to within a minute"
    finds(f"peer {under_tls}", 0, "ok", words, task(), *others(pin + under_tls, "--tls", "on"))


def test_a_tracker_under_tls(task, finds, under_tls, node):
    peer = f"peer {under_tls}"
    argv = ("--tls", "on", "--tracker")
    words = "; correct the KEY of --tracker, or find out who listens there"
    finds(peer, 2, "problem", words, task(), *argv, f"{OTHER.public.hex()}@https://{under_tls}")
    finds(peer, 0, "ok", "", task(), *argv, f"{KEY.public.hex()}@https://{under_tls}")
    node.body = b'{"task": "loan"}'
    finds(peer, 2, "problem", "runs the task 'loan'", task(), *argv, f"https://{under_tls}")


def test_another_key_than_the_pinned_one_is_a_problem(task, finds, under_tls, node):
    node.body = b'{"task": "loan"}'  # what it says is not even asked for
    keys = f"{KEY.public.hex()[:16]}..., not {OTHER.public.hex()[:16]}..."
    words = f": the far end holds the key {keys}; correct --peers, or find out who listens there"
    argv = others(f"{OTHER.public.hex()}@{under_tls}", "--tls", "on")
    finds(f"peer {under_tls}", 2, "problem", words, task(), *argv)


@pytest.mark.parametrize(
    ("choice", "line"), [("on", "does not speak TLS 1.3"), ("off", "does not answer without TLS")]
)
def test_with_and_without_tls_do_not_meet(task, finds, node, request, choice, line):
    """The check dials in the way that the node does not serve."""
    node.body, node.time_s = b"{}", time.time()
    peer = request.getfixturevalue("under_tls") if choice == "off" else f"127.0.0.1:{node.server_port}"
    words = f": the program there {line}; use the same --tls at both ends, unless it is another program"
    finds(f"peer {peer}", 0, "warning", words, task(), *others(peer, "--tls", choice))


def test_where_it_listens_without_being_told(task, finds):
    free = sorted(free_endpoint() for _ in range(3))
    words = f"port: {free[0]} of --peers can be listened on"
    found = finds("port", 0, "ok", words, task(), "--peers", ",".join(free))
    assert [what for what in found if what.startswith("peer ")] == [f"peer {one}" for one in free[1:]]
    words = "peers: --peers names 2 members, this node among them; allowed: 3 or more, as of two each could"
    finds("peers", 2, "problem", words, task(), "--listen", "127.0.0.1:0", "--peers", THERE)


def test_images(task, run, tmp_path):
    for number in range(6):
        name, colour = (("blue", (0, 0, 255)), ("red", (255, 0, 0)))[number % 2]
        picture(tmp_path / "scans" / name / f"{number}.png", colour, (8 + number, 8))
    model = {"class": "node.models:ConvNet", "args": {"shape": [3, 8, 8], "outputs": 2}}
    status, found, lines, _ = run(task(model=model, data={"schema": IMAGES}), "--data", "scans")
    assert (status, found["data"][0]) == (0, "ok")
    assert "    class   folder             'blue' 3, 'red' 3" in lines


@cases("""
    argv => line
    --data a.csv => error: --data is refused: the task comes first; --help shows more
    digts => error: before anything could be checked: task 'digts' is not known; allowed: digits
    digits --frobnicate => error: before anything could be checked: unrecognized arguments
    digits --data a --shard 0/2 => error: before anything could be checked: --data 'a' and
""")
def test_arguments_that_are_wrong(run, argv, line):
    status, found, lines, errors = run(*argv.split())
    assert (status, found, lines, len(errors)) == (2, {}, [], 1)
    assert errors[0].startswith(line)


def test_help(capsys):
    assert check.main(["--help"]) == 0
    assert check.main([]) == 2
    assert capsys.readouterr().out.count("usage: python -m node.check TASK") == 2


@pytest.mark.parametrize("holds", [KEY, OTHER])
def test_a_tracker_without_tls_that_was_met_before(task, finds, run, node, tmp_path, holds):
    endpoint = f"127.0.0.1:{node.server_port}"
    node.body, node.time_s = f'{{"key": "{holds.public.hex()}"}}'.encode(), time.time()
    KnownTracker(None, tmp_path / "tracker.pub").keep(endpoint, KEY.public)
    argv = (task(), "--tracker", f"http://{endpoint}")
    keys = f"{OTHER.public.hex()[:16]}..., not {KEY.public.hex()[:16]}..."
    status, level, words = (0, "ok", "") if holds is KEY else (2, "problem", keys)
    found = finds(f"peer {endpoint}", status, level, words, *argv, "--out", str(tmp_path))
    assert (keys in found[f"peer {endpoint}"][1]) is (holds is OTHER)
    assert run(*argv)[0] == 0, "nothing is known without --out"


def test_a_file_of_trackers_that_is_none(task, finds, tmp_path):
    (tmp_path / "tracker.pub").write_text("what\n")
    finds("tracker", 2, "problem", "", task(), "--tracker", HERE, "--out", str(tmp_path))


def visits(of=lambda number: f"p{number // 3}"):
    """The ward's file with the person of each row in front."""
    header, *rows = ward(300).splitlines()
    return "\n".join([f"who,{header}", *(f"{of(number)},{row}" for number, row in enumerate(rows))]) + "\n"


def test_whose_the_rows_are(task, finds, tmp_path):
    written = task(data={"schema": WARD, "person": "who"}, privacy={"mechanism": "dp-sgd"})
    (tmp_path / "ward.csv").write_text(visits())
    found = finds("persons", 0, "ok", "100 persons by column 'who', of 3 to 3 rows; ", written)
    assert "times what one person can move it" in found["noise"][1]
    (tmp_path / "ward.csv").write_text(visits(lambda number: f"{'P' if number < 8 else 'p'}-{number // 3}"))
    finds("persons", 0, "warning", "'P-2' and 'p-2' are two persons: write each", written)
    (tmp_path / "ward.csv").write_text(visits(lambda number: "" if number in (4, 9) else f"p{number // 3}"))
    finds("data", 2, "problem", "column 'who': no person in row 5, 10; write whose they are", written)
    argv = (written, "--blank-person", "own")
    finds("persons", 0, "warning", "2 rows without a name, each a person of its own", *argv)


def test_rows_that_are_equal_in_all_columns_are_told_unless_persons_are_named(task, finds, run, tmp_path):
    header, *rows = (line.partition(",")[2] for line in ward(60).splitlines())
    unlike = list(dict.fromkeys(rows))
    rows = [*unlike, *unlike[:5], unlike[0]]
    (tmp_path / "ward.csv").write_text("\n".join([header, *rows]) + "\n")
    said = f"11 of {len(rows)} rows are equal to another in all columns: if they are one person's, "
    no_model = {"class": "node.models:Linear", "args": {"inputs": 1, "outputs": 1}}
    finds("rows", 2, "warning", f"{said}that person counts more; name", task(model=no_model))
    private = task(model=no_model, privacy={"mechanism": "dp-sgd"})
    finds("rows", 2, "warning", f"{said}epsilon is for one row", private)
    lines = [f"who,{header}", *(f"{number % 30},{row}" for number, row in enumerate([*rows, *rows]))]
    (tmp_path / "ward.csv").write_text("\n".join(lines) + "\n")
    assert "rows" not in run(task(model=no_model, data={"schema": WARD, "person": "who"}))[1]


@pytest.mark.parametrize(
    ("argv", "subject"),
    [
        (("--names", "nobody.txt"), "names"),
        (("--out", "lost"), "out"),
        (("--set", "aggregation.loss_gate=0.5", "--set", "privacy.mechanism=dp-sgd"), "model"),
    ],
)
def test_what_a_start_refuses_is_a_problem_here_in_the_same_words(task, run, tmp_path, argv, subject):
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "history.jsonl").write_text("{}\n")
    place = ("task.toml", "--data", "ward.csv", "--listen", "127.0.0.1:0")
    task()
    options = parse_arguments(["--task", *place, "--peers", "127.0.0.1:1", *argv])
    with pytest.raises(ConfigError) as refused:
        check_start(options) or prepare(options)
    status, found, _, _ = run(*place, *argv)
    assert (status, found[subject]) == (2, ("problem", f"{subject}: {refused.value}"))
