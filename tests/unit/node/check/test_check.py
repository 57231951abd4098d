import socket
import threading
import time
from contextlib import ExitStack, closing, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from node import free_memory
from node.check import __main__ as check
from node.check.checks import rounds_within
from node.init.task_file import toml
from node.net.tls import make_tls
from node.runtime.known_tracker import KnownTracker
from node.runtime.privacy_budget import make_mechanism
from node.storage.key_file import new_seed, write_key
from node.task.load import load_task
from node.task.step_defaults import step_defaults
from protocol.crypto.node_key import NodeKey
from tests.openings import after_opening
from tests.own_data import IMAGES, TABLE, picture, ward

HERE, THERE, YONDER = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
TASK = {
    "task": {"name": "ward"},
    "model": {"class": "node.models:Linear", "args": {"inputs": 7, "outputs": 2}},
    "data": {"schema": TABLE},
}


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Writes a task file with TASK's sections and others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward.csv").write_text(ward(300))

    def write(**sections):
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in section.items())
            for name, section in {**TASK, **sections}.items()
        )
        (tmp_path / "task.toml").write_text(text)
        return "task.toml"

    return write


@pytest.fixture
def run(capsys):
    def run(*argv):
        """Runs the check; returns (status, findings by subject, all output)."""
        status = check.main([str(part) for part in argv])
        said = capsys.readouterr()
        lines = said.out.splitlines()
        levels = {"ok", "warning", "problem"}
        found = [line.split(maxsplit=1) for line in lines if line.split(" ")[0] in levels]
        return (
            status,
            {text.split(": ")[0]: (level, text) for level, text in found},
            lines,
            after_opening(said.err).splitlines(),
        )

    return run


def test_everything_is_fine(task, run):
    status, found, lines, errors = run(task(), "--data", "ward.csv", "--out", "out")
    assert (status, errors, lines[-1]) == (0, [], "nothing found that would fail")
    assert {what: level for what, (level, _) in found.items()} == dict.fromkeys(
        ("task", "data", "model", "budget", "memory", "learning", "key"), "ok"
    )
    assert found["task"][1] == "task: ward, 20 rounds"
    assert found["data"][1] == (
        "data: ward.csv: 300 rows, 4 columns as 7 features, target 'outcome' (2 classes); 240 to train "
        "on, 60 held "
        "back for validation"
    )
    assert "    ward     category of 2 values" in lines
    assert found["model"][1] == "model: node.models:Linear, 16 parameters, takes these rows"
    assert found["budget"][1] == "budget: no privacy mechanism, nothing is counted"
    assert found["key"][1].startswith(
        "key: out/node.key is made at the first start; python -m node.key out/node.key"
    )


def test_a_built_in_task(run):
    status, found, _, _ = run("digits", "--shard", "0/5", "--rounds", "3")
    assert (status, found["task"][1]) == (0, "task: digits, 3 rounds")
    status, found, _, _ = run("digits")
    assert (status, found["data"][0]) == (2, "problem")
    assert "give --shard I/N" in found["data"][1]


def test_data_that_does_not_fit_is_a_problem(task, run, tmp_path):
    (tmp_path / "bad.csv").write_text(ward(300).replace("yes", "maybe"))
    status, found, lines, _ = run(task(), "--data", "bad.csv")
    assert (status, lines[-1]) == (2, "1 problem")
    assert found["data"][0] == "problem"
    assert ", column 'smoker': 'maybe' is not yes or no" in found["data"][1]
    assert "model" not in found


def test_a_column_without_values_and_a_class_without_rows_are_warnings(task, run, tmp_path):
    rows = [line.split(",") for line in ward(100).splitlines()]
    (tmp_path / "a.csv").write_text(
        "\n".join(",".join([*row[:2], "" if i else row[2], *row[3:]]) for i, row in enumerate(rows))
    )
    status, found, _, _ = run(task(), "--data", "a.csv")
    assert (status, found["data"][0]) == (0, "warning")
    assert found["data"][1].endswith("; no value at all in ward: is the column named or filled otherwise?")
    (tmp_path / "b.csv").write_text(ward(100).replace(",ill", ",well"))
    status, found, _, _ = run(task(), "--data", "b.csv")
    assert (status, found["data"][0]) == (0, "warning")
    assert found["data"][1].endswith("; some classes have no row here: that is fine if other peers have them")


def test_a_model_that_does_not_take_the_rows(task, run):
    model = {"class": "node.models:Linear", "args": {"inputs": 6, "outputs": 2}}
    status, found, _, _ = run(task(model=model), "--data", "ward.csv")
    assert (status, found["model"][0]) == (2, "problem")
    assert found["model"][1].startswith("model: model node.models:Linear does not take rows of 7 features")


def test_more_names_than_nodes_tell_each_other(task, run, tmp_path, monkeypatch):
    (tmp_path / "deep.py").write_text(
        "from torch import nn\n"
        "class Deep(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(*(nn.Linear(7, 7) for _ in range(600)), nn.Linear(7, 2))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    status, found, _, _ = run(task(model={"class": "deep:Deep", "args": {}}), "--data", "ward.csv")
    assert (status, found["model"][0]) == (2, "problem")
    assert "which nodes tell each other; allowed: at most 16384; choose fewer columns" in found["model"][1]


PRIVATE = {"mechanism": "dp-sgd", "epsilon": 8.0}


def test_a_budget_that_lasts(task, run):
    status, found, _, _ = run(
        task(privacy=PRIVATE, train={"rounds": 5, "batch_size": 64}), "--data", "ward.csv"
    )
    assert (status, found["budget"][0], found["noise"][0]) == (0, "ok", "ok")
    assert found["budget"][1].startswith(
        "budget: epsilon 8 at delta 1e-05 lasts all 5 rounds, which cost 7.9"
    )


def test_how_gradients_of_single_rows_are_computed(task, run, tmp_path, monkeypatch):
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
    fast, slow, refused = (
        run(task(privacy=PRIVATE, **model), "--data", "ward.csv")[:2]
        for model in (
            {},
            *({"model": {"class": f"layers:{name}", "args": {}}} for name in ("Bent", "Normed")),
        )
    )
    assert fast[1]["gradients"][0] == "ok"
    assert slow[1]["gradients"][0] == "warning"
    assert "PReLU has no rule of its own" in slow[1]["gradients"][1]
    assert (refused[0], refused[1]["training"][0]) == (2, "problem")
    assert "layer '1' (BatchNorm1d) takes its statistics from the batch" in refused[1]["training"][1]
    assert "gradients" not in run(task(), "--data", "ward.csv")[1]


def test_a_body_that_does_not_fit_is_found(task, run):
    model = {"class": "node.models:Linear", "args": {"inputs": 7, "outputs": 2}, "body": "legs"}
    status, found, _, _ = run(task(model=model), "--data", "ward.csv")
    assert (status, found["training"][0]) == (2, "problem")
    assert "model.body = 'legs' is no part of the model" in found["training"][1]


def test_a_budget_that_ends_before_the_rounds_do(task, run):
    path = task(privacy=PRIVATE, train={"rounds": 5, "batch_size": 64})
    status, found, _, _ = run(path, "--data", "ward.csv", "--rounds", "9")
    assert (status, found["budget"][0]) == (0, "warning")
    assert found["budget"][1] == (
        "budget: epsilon 8 at delta 1e-05 lasts 5 of 9 rounds, after which this node offers nothing and "
        "learns from "
        "the others; raise privacy.epsilon, or run the 5 of the task"
    )


SHARED = {"mechanism": "distributed-dp-sgd", "epsilon": 3.0}


def test_what_was_chosen_for_steps_with_shared_noise(task, run):
    path = task(privacy=SHARED, train={"expected_rows": 9000})
    chosen = step_defaults(9000, 3.0, frozen_body=False)
    _, found, _, _ = run(path, "--data", "ward.csv")
    level, text = found["steps"]
    assert level == "ok"
    assert text.startswith(
        f"steps: {chosen.steps} of them, a round is {chosen.report_every}; each has {chosen.expected_batch} "
        f"of about 9000 rows of all peers, in the mean; sgd, learning rate {chosen.learning_rate:g}, "
        "gradients clipped to 1; with 3 members the noise is 0."
    )
    drowned = task(privacy={**SHARED, "epsilon": 0.001}, train={"expected_rows": 900})
    _, found, _, _ = run(drowned, "--data", "ward.csv")
    assert found["steps"][0] == "warning"
    assert found["steps"][1].endswith("a smaller model, or more rows")


@pytest.mark.parametrize(("epsilon", "level"), [(300.0, "ok"), (1.0, "warning")])
def test_what_counts_of_rows_cost_and_whether_their_noise_drowns_them(task, run, epsilon, level):
    privacy = {**PRIVATE, "epsilon": epsilon, "metric_share": 0.5}
    path = task(privacy=privacy, train={"rounds": 10}, aggregation={"swarm_metric": "sums"})
    _, found, _, _ = run(path, "--data", "ward.csv")
    assert found["metric of all"][0] == level
    text = found["metric of all"][1]
    assert "every 5 rounds, of 60 test rows here; noise covers them" in text
    alone = {300.0: "6.6", 1.0: "0.5"}[epsilon]  # noise is at least what one row moves
    assert f"2 such offers would by themselves cost epsilon {alone};" in text
    assert "with 3 members each number in their sum is off by about" in text
    assert text.endswith("or count rarely") == (level == "warning")
    assert "with their counts" in found["budget"][1]


def test_noise_that_drowns_what_there_is_to_learn(task, run):
    path = task(privacy={**PRIVATE, "epsilon": 0.1}, train={"rounds": 5, "batch_size": 8})
    _, found, _, _ = run(path, "--data", "ward.csv")
    assert found["noise"][0] == "warning"
    assert "times what one row can move it, so little will be learned" in found["noise"][1]


def test_rounds_within_a_budget_are_what_the_node_affords():
    task = load_task("digits", ["privacy.mechanism=ldp", "train.rounds=4", "privacy.epsilon=500"])
    mechanism = make_mechanism(task, [("w", (10,))], 100)
    assert [rounds_within(mechanism, rounds) for rounds in (1, 4, 5, 50)] == [1, 4, 4, 4]


def test_memory_that_is_not_there(task, run, monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(free_memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(free_memory, "_LIMITS", (tmp_path / "no", tmp_path / "no"))
    for free, level, words in (
        (1 << 10, "problem", ", but 0.00 GiB is free; take fewer rows"),
        (1 << 19, "warning", "; 0.50 GiB is free"),
        (1 << 24, "ok", "; 16.00 GiB is free"),
    ):
        meminfo.write_text(f"MemTotal: 99 kB\nMemAvailable: {free} kB\n")
        _, found, _, _ = run(task(), "--data", "ward.csv")
        assert (found["memory"][0], found["memory"][1].endswith(words)) == (level, True)
    meminfo.unlink()
    _, found, _, _ = run(task(), "--data", "ward.csv")
    assert found["memory"][1].endswith("; how much is free is not known here")


def test_a_container_s_limit_counts(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemAvailable: 1000 kB\n")
    (tmp_path / "used").write_text("400\n")
    monkeypatch.setattr(free_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free_memory, "_LIMITS", (tmp_path / "most", tmp_path / "used"))
    for most, free in (("1000\n", 600), ("max\n", 1_024_000)):
        (tmp_path / "most").write_text(most)
        assert free_memory.free_bytes() == free


def test_a_port_that_is_taken(task, run):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        status, found, _, _ = run(task(), "--data", "ward.csv", "--listen", endpoint)
        assert (status, found["port"][0]) == (2, "problem")
        assert found["port"][1] == (
            f"port: --listen {endpoint}: address already in use; end what uses the port, or listen "
            f"elsewhere (port 0 "
            "takes a free one)"
        )
    status, found, _, _ = run(task(), "--data", "ward.csv", "--listen", endpoint)
    assert (status, found["port"]) == (0, ("ok", f"port: {endpoint} can be listened on"))


def test_keys_and_lists(task, run, tmp_path):
    seed = new_seed()
    write_key(tmp_path / "k", seed)
    argv = (task(), "--data", "ward.csv", "--key", "k", "--allow", "list")
    (tmp_path / "list").write_text("ab" * 32 + "\n" + "cd" * 32 + "\n")
    status, found, _, _ = run(*argv)
    assert (status, found["key"][0], found["allow-list"]) == (
        0,
        "ok",
        ("ok", "allow-list: list names 2 keys"),
    )
    assert found["key"][1].endswith(" in k, readable by its owner alone")
    assert seed.hex() not in str(found)
    (tmp_path / "k").chmod(0o644)
    (tmp_path / "list").write_text("ab" * 32)
    status, found, lines, _ = run(*argv)
    assert (status, lines[-1]) == (2, "2 problems")
    assert found["key"][1] == "key: the key file k can be read by others (mode 0644); run: chmod 600 k"
    assert found["allow-list"][1] == (
        "allow-list: list names 1 key; a round needs 3 peers, this one among them: add the others' keys"
    )
    (tmp_path / "list").write_text("no key")
    _, found, _, _ = run(*argv)
    assert found["allow-list"][1].startswith("allow-list: allow-list 'list', line 1: 'no key' is no key")


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


def test_peers_that_answer_and_peers_that_do_not(task, run, node, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    endpoint = f"127.0.0.1:{node.server_port}"
    peer = f"peer {endpoint}"
    argv = (
        task(),
        "--data",
        "ward.csv",
        "--listen",
        "127.0.0.1:0",
        "--peers",
        f"{endpoint},{THERE},{YONDER}",
    )
    for body, ahead, level, words in (
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
    ):
        node.body, node.time_s = body, 1_800_000_000 + ahead
        status, found, _, _ = run(*argv)
        assert found[peer] == (level, f"{peer}: {words}")
        assert status == (2 if level == "problem" else 0)
    assert found[f"peer {THERE}"][0] == "warning"
    assert found[f"peer {THERE}"][1].startswith(
        f"peer {THERE}: nobody answers (Connection refused); start it, or"
    )


def test_a_peer_that_speaks_no_http(task, run):
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"

        def answer():
            with closing(server.accept()[0]) as link:
                link.recv(1)
                link.sendall(b"\x15\x03\x03\x00\x02\x02\x16")

        thread = threading.Thread(target=answer)
        thread.start()
        peers = ("--listen", "127.0.0.1:0", "--peers", f"{endpoint},{THERE},{YONDER}")
        status, found, _, _ = run(task(), "--data", "ward.csv", *peers)
        thread.join()
    assert (status, found[f"peer {endpoint}"][0]) == (0, "warning")
    assert found[f"peer {endpoint}"][1].endswith(
        ": the program there does not answer without TLS; use the same --tls at both ends, unless it is "
        "another program"
    )


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
        status, found, _, _ = run(task(), "--data", "ward.csv", *argv)
        for thread in threads:
            thread.join()
    assert (status, [found[f"peer {endpoint}"][0] for endpoint in endpoints]) == (0, ["ok"] * others)


def test_a_peer_that_answers_for_ever_is_not_waited_for(task, run, monkeypatch):
    """It sends a byte at a time: each comes in time, and there is always another."""
    monkeypatch.setattr("node.check.probe.PATIENCE_S", 0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"

        def answer():
            with closing(server.accept()[0]) as link, suppress(OSError):
                while True:
                    link.sendall(b"y")
                    link.settimeout(0.01)
                    with suppress(TimeoutError):
                        if not link.recv(1 << 16):
                            break

        thread = threading.Thread(target=answer)
        thread.start()
        peers = ("--listen", "127.0.0.1:0", "--peers", f"{endpoint},{THERE},{YONDER}")
        status, found, _, _ = run(task(), "--data", "ward.csv", *peers)
        thread.join()
    assert (status, found[f"peer {endpoint}"][0]) == (0, "warning")


KEY, OTHER = NodeKey(b"1" * 32), NodeKey(b"2" * 32)


@pytest.fixture
def under_tls(node):
    """The same node under TLS, with a certificate that KEY vouches for."""
    context = make_tls(KEY, "on", HERE, lambda _: frozenset()).server
    node.socket = context.wrap_socket(node.socket, server_side=True, do_handshake_on_connect=False)
    node.body, node.time_s = b'{"task": "ward"}', time.time()
    return f"127.0.0.1:{node.server_port}"


@pytest.mark.parametrize("pin", [f"{KEY.public.hex()}@", ""])
def test_a_peer_under_tls(task, run, under_tls, pin):
    peers = ("--tls", "on", "--peers", f"{pin}{under_tls},{THERE},{YONDER}")
    status, found, _, _ = run(task(), "--data", "ward.csv", "--listen", "127.0.0.1:0", *peers)
    peer = f"peer {under_tls}"
    assert (status, found[peer]) == (
        0,
        ("ok", f"{peer}: answers under TLS, its clock agrees to within a minute"),
    )


def test_a_tracker_under_tls_that_runs_another_task(task, run, under_tls, node):
    node.body = b'{"task": "loan"}'
    status, found, _, _ = run(
        *(task(), "--data", "ward.csv", "--tls", "on", "--tracker", f"https://{under_tls}")
    )
    assert (status, found[f"peer {under_tls}"][0]) == (2, "problem")
    assert "runs the task 'loan'" in found[f"peer {under_tls}"][1]


def test_another_key_than_the_pinned_one_is_a_problem(task, run, under_tls, node):
    node.body = b'{"task": "loan"}'  # what it says is not even asked for
    peers = ("--tls", "on", "--peers", f"{OTHER.public.hex()}@{under_tls},{THERE},{YONDER}")
    status, found, _, _ = run(task(), "--data", "ward.csv", "--listen", "127.0.0.1:0", *peers)
    peer = f"peer {under_tls}"
    keys = f"{KEY.public.hex()[:16]}..., not {OTHER.public.hex()[:16]}..."
    told = f"{peer}: the far end holds the key {keys}; correct --peers, or find out who listens there"
    assert (status, found[peer]) == (2, ("problem", told))


@pytest.mark.parametrize(
    ("choice", "told"), [("on", "does not speak TLS 1.3"), ("off", "does not answer without TLS")]
)
def test_with_and_without_tls_do_not_meet(task, run, node, choice, told):
    """The check dials in the way that the node does not serve."""
    node.body, node.time_s = b"{}", time.time()
    if choice == "off":
        context = make_tls(KEY, "on", HERE, lambda _: frozenset()).server
        node.socket = context.wrap_socket(node.socket, server_side=True, do_handshake_on_connect=False)
    peer = f"127.0.0.1:{node.server_port}"
    peers = ("--tls", choice, "--listen", "127.0.0.1:0", "--peers", f"{peer},{THERE},{YONDER}")
    status, found, _, _ = run(task(), "--data", "ward.csv", *peers)
    what = f"the program there {told}; use the same --tls at both ends, unless it is another program"
    assert (status, found[f"peer {peer}"]) == (0, ("warning", f"peer {peer}: {what}"))


def test_too_few_peers(task, run):
    status, found, _, _ = run(task(), "--data", "ward.csv", "--listen", "127.0.0.1:0", "--peers", THERE)
    assert (status, found["peers"][0]) == (2, "problem")
    assert found["peers"][1] == (
        "peers: 1 other in --peers; a round needs 3 peers, this one among them: name the others"
    )


def test_where_it_listens_without_being_told(task, run, nobody_there):
    peers = ",".join(nobody_there)
    status, found, _, _ = run(task(), "--data", "ward.csv", "--peers", peers)
    assert (status, found["port"]) == (0, ("ok", f"port: {nobody_there[0]} of --peers can be listened on"))
    assert [what for what in found if what.startswith("peer ")] == [f"peer {one}" for one in nobody_there[1:]]


@pytest.fixture
def nobody_there():
    """Returns three endpoints where nobody listens."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    endpoints = sorted(f"127.0.0.1:{one.getsockname()[1]}" for one in taken)
    for one in taken:
        one.close()
    return endpoints


def test_images(task, run, tmp_path):
    for name, colour in (("blue", (0, 0, 255)), ("red", (255, 0, 0))):
        for number in range(3):
            picture(tmp_path / "scans" / name / f"{number}.png", colour)
    model = {"class": "node.models:ConvNet", "args": {"shape": [3, 8, 8], "outputs": 2}}
    status, found, lines, _ = run(task(model=model, data={"schema": IMAGES}), "--data", "scans")
    assert (status, found["data"][0]) == (0, "ok")
    assert "    class   folder             'blue' 3, 'red' 3" in lines


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--data", "a.csv"), "error: --data is refused: the task comes first; --help shows more"),
        (("digts",), "error: before anything could be checked: task 'digts' is not known; allowed: digits"),
        (("digits", "--frobnicate"), "error: before anything could be checked: unrecognized arguments"),
        (
            ("digits", "--data", "a", "--shard", "0/2"),
            "error: before anything could be checked: --data 'a' and",
        ),
    ],
)
def test_arguments_that_are_wrong(run, argv, line):
    status, found, lines, errors = run(*argv)
    assert (status, found, lines, len(errors)) == (2, {}, [], 1)
    assert errors[0].startswith(line)


def test_help(capsys):
    assert check.main(["--help"]) == 0
    assert check.main([]) == 2
    assert capsys.readouterr().out.count("usage: python -m node.check TASK") == 2


def test_a_tracker_under_tls_with_another_key_than_the_pinned_one(task, run, under_tls):
    argv = ("--tls", "on", "--tracker", f"{OTHER.public.hex()}@https://{under_tls}")
    status, found, _, _ = run(task(), "--data", "ward.csv", *argv)
    told = found[f"peer {under_tls}"]
    assert (status, told[0]) == (2, "problem")
    assert told[1].endswith("; correct the KEY of --tracker, or find out who listens there")
    argv = ("--tls", "on", "--tracker", f"{KEY.public.hex()}@https://{under_tls}")
    assert run(task(), "--data", "ward.csv", *argv)[0] == 0


@pytest.mark.parametrize("holds", [KEY, OTHER])
def test_a_tracker_without_tls_that_was_met_before(task, run, node, tmp_path, holds):
    endpoint = f"127.0.0.1:{node.server_port}"
    node.body, node.time_s = f'{{"key": "{holds.public.hex()}"}}'.encode(), time.time()
    KnownTracker(None, tmp_path / "tracker.pub").keep(endpoint, KEY.public)
    argv = ("--data", "ward.csv", "--tracker", f"http://{endpoint}")
    status, found, _, _ = run(task(), *argv, "--out", str(tmp_path))
    keys = f"{OTHER.public.hex()[:16]}..., not {KEY.public.hex()[:16]}..."
    told = found[f"peer {endpoint}"]
    assert (status, told[0], keys in told[1]) == ((0, "ok", False) if holds is KEY else (2, "problem", True))
    assert run(task(), *argv)[0] == 0, "nothing is known without --out"


def test_a_file_of_trackers_that_is_none(task, run, tmp_path):
    (tmp_path / "tracker.pub").write_text("what\n")
    status, found, _, _ = run(task(), "--data", "ward.csv", "--tracker", HERE, "--out", str(tmp_path))
    assert (status, found["tracker"][0]) == (2, "problem")
