"""The desk over real sockets: who may see and do what, and what it answers to garbage."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from node.desk.form import MOST_BYTES
from node.desk.invitations import LINES
from node.desk.serve import OWN_PARTS, Desk, own_asset
from node.desk.steps import STEPS
from node.observe.page import HEADERS, PARTS
from node.storage.folder_lock import MODELS
from tests.patience import ENOUGH_S
from tests.unit.node.desk.served import TOKEN, Served
from tests.unit.node.desk.wards import ward_csv
from tests.unit.node.observe.folders import run_in

GETS = (
    *("/v1/desk", "/v1/rows?file=ward.csv", "/v1/task?file=ward.toml"),
    *("/run/runs%2Fa/v1/status", "/v1/swarm?run=runs/a", "/v1/words"),
)
POSTS = ("/v1/replace", "/v1/answer", "/v1/end", *(f"/v1/{name}" for name in (*STEPS, *LINES)))


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Iterator[Served]:
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    ward_csv(folder / "ward.csv")
    ward_csv(tmp_path / "secret.csv")
    (folder / "ward.toml").write_text('[task]\nname = "ward"\n[model]\nclass = "node.models:Linear"\n')
    run = run_in(folder / "runs" / "a", ended=True)
    (run / MODELS[0]).write_bytes(b"the model")
    with Served(folder) as served:
        yield served


def test_the_parts_are_the_same_for_everybody_and_hold_nothing_of_the_folder(desk):
    for path in ("/", *(f"/page/{name}" for name in PARTS), *(f"/desk/{name}" for name in OWN_PARTS)):
        status, headers, body = desk.ask(path)
        assert (status, HEADERS.items() <= headers.items()) == (200, True)
        assert b"ward.csv" not in body
    for path in ("/desk/serve.py", "/desk/..%2fserve.py", "/page/desk.js", "/desk/page.js", "/ward.csv"):
        assert desk.ask(path)[0] == 404


def test_every_part_is_served_and_nothing_else_lies_there():
    names = {path.name for path in Path(sys.modules[Desk.__module__].__file__).with_name("assets").iterdir()}
    assert names == {*OWN_PARTS, "desk.html"}
    for name in names:
        assert b"http" not in own_asset(name)


STRANGERS = {
    "Authorization": ((401, ""), (401, "Bearer " + "00" * 32), (401, "Bearer "), (401, TOKEN)),
    "Host": ((421, "evil.example"), (421, "127.0.0.1.evil.example:80")),
    "Sec_Fetch_Site": ((403, "cross-site"), (403, "same-site")),
}
OTHER_PAGES = {
    "Origin": (
        (403, ""),
        (403, "null"),
        *((403, f"http://{at}") for at in ("evil.example", "127.0.0.1", "localhost:1")),
    ),
    "Content_Type": ((415, "text/plain"), (415, "application/x-www-form-urlencoded")),
}
"""By header: with what status a value is refused."""


def test_only_the_owner_sees_the_folder(desk):
    for path in GETS:
        owner = {"Authorization": f"Bearer {TOKEN}"}
        assert desk.ask(path, **owner)[0] == 200
        for name, refused in STRANGERS.items():
            for status, value in refused:
                assert desk.ask(path, **{**owner, name: value})[0] == status, (path, name, value)


def test_only_the_page_itself_does_anything(desk):
    for path in POSTS:
        for name, refused in (STRANGERS | OTHER_PAGES).items():
            for status, value in refused:
                found = desk.post(path, {"data": "ward.csv"}, **{name: value})[0]
                assert found == status, (path, name, value)
        for body in (b"", b"{", b"[]", b"\xff", b"[" * 200_000, b"{}", b'{"data": 3, "run": 3, "task": 3}'):
            status, answer = desk.post(path, body)
            assert (status, list(json.loads(answer))) == (400, ["error"])
        assert desk.post(path, b" " * (MOST_BYTES + 1))[0] == 413
    assert desk.get("/v1/desk")[1]["work"] is None


def test_a_get_changes_nothing_and_other_methods_are_refused(desk):
    for path in POSTS:
        assert desk.ask(path, **desk.owner)[0] == 405
    for path in ("/", "/v1/desk"):
        assert desk.ask(path, "POST", b"{}", **desk.owner)[0] == 405


def test_nothing_outside_the_folder_is_shown(desk, tmp_path):
    (tmp_path / "mine" / "link.csv").symlink_to(tmp_path / "secret.csv")
    for written in ("../secret.csv", "..%2Fsecret.csv", "/etc/passwd", "link.csv", "", "%00", "gone"):
        for path in ("/v1/rows", "/v1/task"):
            status, answer = desk.get(f"{path}?file={written}")
            assert (status, list(answer)) == (422, ["error"]), written
        name = written.replace("/", "%2F")
        assert desk.ask(f"/run/{name}/v1/status", Authorization=f"Bearer {TOKEN}")[0] in {404, 400}


def test_the_folder_is_shown(desk, tmp_path):
    status, seen = desk.get("/v1/desk")
    assert (status, seen["folder"], seen["tasks"]) == (200, str(tmp_path / "mine"), ["ward.toml"])
    assert [file["name"] for file in seen["data"]] == ["ward.csv"]
    (swarm,) = seen["swarms"]
    assert (swarm["folder"], swarm["state"], swarm["model_bytes"]) == ("runs/a", "over", 9)
    assert desk.get("/v1/rows?file=ward.csv")[1]["columns"] == ["age", "sex", "lactate", "bed", "outcome"]


def test_a_run_that_cannot_be_read_is_a_line_and_hides_no_other(desk, tmp_path):
    (run_in(tmp_path / "mine" / "b") / "view.json").write_text("{")
    states = {one["folder"]: one["state"] for one in desk.get("/v1/desk")[1]["swarms"]}
    assert states == {"runs/a": "over", "b": "unreadable"}


def test_a_run_has_its_page_and_loses_it_with_its_folder(desk, tmp_path):
    run = "/run/runs%2Fa"
    assert desk.ask(f"{run}/")[0] == desk.ask(f"{run}/page/page.js")[0] == 200
    assert desk.get(f"{run}/v1/status")[1]["folder"].endswith("mine/runs/a")
    assert desk.ask(f"{run}/v1/model", Authorization=f"Bearer {TOKEN}")[2] == b"the model"
    others = (f"/run/{name}/" for name in ("mine", "runs%2Fb", "..%2F", "runs%2F..%2F..%2Fmine"))
    for path in (f"{run}/view.json", *others):
        assert desk.ask(path, Authorization=f"Bearer {TOKEN}")[0] == 404


def test_a_step_is_followed_to_its_end(desk):
    status, answer = desk.post("/v1/look", {"data": "ward.csv", "target": "nobody"})
    begun = json.loads(answer)["work"]
    assert (status, begun["number"], begun["step"]) == (200, 1, "look")
    work = follow(desk)
    assert work["state"] == "failed"
    assert work["error"].startswith("data file 'ward.csv' has no column 'nobody'")
    desk.post("/v1/look", {"data": "ward.csv", "target": "outcome"})
    work = follow(desk)
    assert (work["number"], work["state"], work["result"]["rows"]) == (2, "done", 300)


def follow(desk: Served) -> dict:
    return desk.until("/v1/desk?work", lambda seen: seen["work"]["state"] != "running")["work"]


def has_ended(seen: dict) -> bool:
    return seen["talk"]["status"] is not None


def test_a_line_of_a_task_is_replaced_in_its_file(desk, tmp_path):
    desk.post("/v1/init", {"data": "ward.csv", "target": "outcome", "out": "w.toml"})
    assert follow(desk)["state"] == "done"
    task = desk.get("/v1/task?file=w.toml")[1]
    line = next(one for one in task["lines"] if '"age"' in one["text"])
    values = {"mean": "50", "std": "20"}
    form = {"file": "w.toml", "line": line["number"], "old": line["text"], "values": values}
    status, answer = desk.post("/v1/replace", form)
    assert (status, json.loads(answer)["marked"]) == (200, task["marked"] - 1)
    assert "mean = 50.0, std = 20.0 },\n" in (tmp_path / "mine" / "w.toml").read_text()
    status, answer = desk.post("/v1/replace", form)
    assert (status, "has changed since" in json.loads(answer)["error"]) == (422, True)
    (tmp_path / "mine" / "runs" / "a" / "task.toml").write_text((tmp_path / "mine" / "w.toml").read_text())
    for file, status in (("../w.toml", 422), ("ward.csv", 400), ("runs/a/task.toml", 400)):
        assert desk.post("/v1/replace", {**form, "file": file})[0] == status


def test_a_swarm_is_shown_with_its_command(desk):
    seen = desk.get("/v1/swarm?run=runs/a")[1]
    assert (seen["folder"], seen["line"]["state"]) == ("runs/a", "over")
    assert (seen["standing"], seen["talk"]) == ("", None)
    assert desk.post("/v1/start", {"run": "runs/a"})[0] == 200
    talk = desk.until("/v1/swarm?talk=1", has_ended)["talk"]
    assert (talk["command"], talk["status"]) == ("murmuration start runs/a", 2)
    assert "runs/a has no swarm" in talk["lines"][-1]
    assert desk.get("/v1/swarm?run=runs/a")[1]["talk"] == talk
    for path in ("/v1/swarm?talk=9", "/v1/swarm?talk=x", "/v1/swarm?run=..", "/v1/swarm"):
        assert desk.get(path)[0] == 422
    for talk in (1, 2):
        for path in ("/v1/answer", "/v1/end"):
            status, answer = desk.post(path, {"talk": talk, "question": "Join?", "yes": True})
            assert (status, "has ended" in json.loads(answer)["error"]) == (422, True)
    assert desk.post("/v1/members", {"run": "runs/a", "does": "remove", "name": "B"})[0] == 200
    assert desk.get("/v1/swarm?talk=1")[1]["talk"]["number"] == 2  # the latest one of the swarm
    assert len(desk.get("/v1/words")[1]["words"]) == 1296


def test_an_invitation_that_fails_leaves_no_swarm(desk):
    """Nothing answers at the relay: its folder has a key, and the page shows what the command said."""
    desk.post("/v1/init", {"data": "ward.csv", "target": "outcome", "out": "w.toml", "privacy": "none"})
    assert follow(desk)["state"] == "done"
    people = {"me": "A", "names": ["B", "C"]}
    form = {"task": "w.toml", "data": "ward.csv", "relay": "127.0.0.1:1#v8k2-qm4t", **people}
    assert desk.post("/v1/invite", form)[0] == 200
    seen = desk.until("/v1/swarm?talk=1", lambda seen: seen["talk"]["question"] or has_ended(seen))
    answer = {"talk": 1, "question": seen["talk"]["question"], "yes": True}
    assert desk.post("/v1/answer", answer)[0] == 200
    seen = desk.until("/v1/swarm?talk=1", has_ended)
    assert (seen["folder"], seen["line"], seen["standing"]) == ("runs/w", None, "")
    assert seen["talk"]["lines"][-1].startswith("error: no way to 127.0.0.1:1")
    swarms, habits = (desk.get("/v1/desk")[1][name] for name in ("swarms", "habits"))
    assert ([one["folder"] for one in swarms], habits["me"]) == (["runs/a"], "A")


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """Starts the command; yields its address. At the end Ctrl-C must end it with status 0."""
    argv = [sys.executable, "-m", "node.desk"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, cwd=folder, **pipes) as process:
        lines = [next(process.stdout) for _ in range(3)]
        try:
            yield lines[1].split()[-1]
        finally:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=ENOUGH_S)
            assert (process.returncode, err) == (0, "")


def test_the_command_prints_an_address_with_a_token_that_nothing_keeps(tmp_path):
    with started(tmp_path) as address:
        url, _, token = address.partition("/#token=")
        host, _, port = url.removeprefix("http://").rpartition(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=ENOUGH_S)) as connection:
            connection.request("GET", "/v1/desk", headers={"Authorization": f"Bearer {token}"})
            assert json.loads(connection.getresponse().read())["folder"] == str(tmp_path)
    assert (len(token), list(tmp_path.iterdir())) == (64, [])
