"""Engine `ray`: one line for errors, and addresses where no Ray answers; bits are in `test_ray_machines`."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from node.system.errors import UserError
from scenarios.engines.choice import RaySection
from scenarios.engines.engine import Place
from tests.e2e.processes import free_endpoint
from tests.own_studies import PLAIN, Told

pytest.importorskip("ray")
from scenarios.engines.ray import RayEngine
from scenarios.engines.ray_cluster import reach

HERE = RaySection()


def place(folder: Path) -> Place:
    return Place(folder, folder / "no data")


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that sends `answer` to every client, and hangs up."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(answer)
            connection.recv(1024)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_one_line(scheme: str, tmp_path: Path) -> None:
    closed = free_endpoint()
    section = RaySection(address=scheme + closed)
    with pytest.raises(UserError, match=r"does not answer \(Connection refused\); start one with") as raised:
        RayEngine(1, section).run([PLAIN], place(tmp_path), Told())
    assert str(raised.value).startswith(f"ray.address = {scheme}{closed} ")
    assert raised.value.status == 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\0\0\0"])
def test_an_address_where_something_else_listens_is_one_line(answer: bytes) -> None:
    with answering(answer) as address, pytest.raises(UserError, match="answers, but not as Ray does"):
        reach(address)
    with answering(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))) as address:
        reach(f"ray://{address}")  # HTTP/2: this may be Ray


@pytest.mark.parametrize("address", ["no.such.host.invalid:1", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_one_line(address: str) -> None:
    with pytest.raises(UserError, match="does not answer") as raised:
        reach(address)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("section", "error", "line"),
    [
        (
            RaySection(address="auto"),
            ConnectionError("no Ray\nhere"),
            "a cluster at auto cannot be used (no Ray here)",
        ),
        (
            HERE,
            ValueError("the store has\nno room"),
            "a cluster of this machine cannot be started (the store has no room)",
        ),
    ],
)
def test_what_ray_refuses_is_one_line(section, error, line, tmp_path, monkeypatch):
    """With Ray's own errors; no part of ours is replaced. Others' clusters may run on this machine."""

    def refusing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ray.init", refusing)
    with pytest.raises(UserError) as raised:
        RayEngine(1, section).run([PLAIN], place(tmp_path), Told())
    assert str(raised.value) == f"--engine ray: {line}"
    assert raised.value.status == 1
