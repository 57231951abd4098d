"""The command's answers over a real socket, from the folders of runs."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from node.show.__main__ import main
from node.storage.folder_lock import MODELS, VIEW
from tests.patience import ENOUGH_S
from tests.unit.node.observe.folders import run_in


@contextmanager
def shown(*folders) -> Iterator[int]:
    """Starts the command; yields its port. At the end Ctrl-C must end it with status 0."""
    argv = [sys.executable, "-m", "node.show", *map(str, folders)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = [next(process.stdout) for _ in range(len(folders) + 2)]
        assert lines[0].startswith("starting: a page for ")
        try:
            yield int(lines[-1].rpartition(":")[2].rstrip("/\n"))
        finally:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=ENOUGH_S)
            assert (process.returncode, err) == (0, "")


def ask(port: int, path: str, **headers: str):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ENOUGH_S)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()


def test_one_run_is_the_page(tmp_path):
    run = run_in(tmp_path / "a", ended=True)
    (run / MODELS[0]).write_bytes(b"the model")
    (run / MODELS[1]).write_bytes(b"the working model")
    with shown(run) as port:
        status, _, body = ask(port, "/v1/status")
        seen = json.loads(body)
        assert (status, seen["kind"], seen["folder"], seen["model_bytes"]) == (200, "node", str(run), 9)
        assert [one["round"] for one in seen["history"]] == [1, 2, 3, 4, 5, 6]
        assert ask(port, "/")[0] == ask(port, "/page/page.js")[0] == 200
        assert ask(port, "/v1/model")[2] == b"the model"
        for path in ("/v1/status", "/v1/model", "/"):
            assert ask(port, path, Host="evil.example")[0] == 421
        for path in ("/v1/status", "/v1/model"):
            assert ask(port, path, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert ask(port, f"/{MODELS[1]}")[0] == ask(port, "/view.json")[0] == 404


def test_several_runs_are_compared_and_each_has_its_page(tmp_path):
    runs = [run_in(tmp_path / name) for name in ("a", "b")]
    with shown(*runs) as port:
        seen = json.loads(ask(port, "/v1/status")[2])
        assert (seen["kind"], [run["path"] for run in seen["runs"]]) == ("comparison", ["1/", "2/"])
        assert ask(port, "/v1/model")[0] == 404
        for place, run in enumerate(runs, 1):
            assert json.loads(ask(port, f"/{place}/v1/status")[2])["folder"] == str(run)
            assert ask(port, f"/{place}/")[0] == 200


def test_what_cannot_be_shown_is_one_line(tmp_path, one_line):
    for status, told, *argv in (
        (2, "the page is for this machine alone; allowed: an address such as", "--listen", "10.0.0.5:8080"),
        (2, "--listen 'nowhere' is refused", "--listen", "nowhere"),
        (2, "holds no run"),
        (1, f"{tmp_path / 'a' / VIEW} is damaged"),
    ):
        if status == 1:
            (run_in(tmp_path / "a") / VIEW).write_text("{")
        assert told in one_line(main, [str(tmp_path), *argv], status=status)
