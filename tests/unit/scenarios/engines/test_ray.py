"""Engine `ray`: the same bits as inline, one line for errors, and addresses where no Ray answers.

Starting a cluster takes seconds, so few tests have one.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from node.errors import UserError
from scenarios.engines.choice import RaySection
from scenarios.engines.engine import Place
from scenarios.engines.inline import InlineEngine
from scenarios.vertical.choices import LABEL_DP, LabelChoice
from tests.criteo_rows import SMALL, written
from tests.own_studies import NOISED, PLAIN, REMEMBERING, SHRINKING, Told, own

pytest.importorskip("ray")
from scenarios.engines.ray import News, RayEngine
from scenarios.engines.ray_cluster import reach

HERE = RaySection()
CELLS = [NOISED, REMEMBERING, own(SHRINKING, {"clients_per_round": 3}), NOISED.seeded(1)]
TWO_PARTIES = replace(SMALL, labels=LabelChoice(LABEL_DP, {"epsilon": 1.0}, True))
BREAKING = own("tests.own_mechanisms:Breaking", {"clients_per_round": 3})
NOT_FINITE = PLAIN.changed({"train": {"learning_rate": 1000.0, "grad_clip": 1e30, "epochs": 20}})


def place(folder: Path) -> Place:
    return Place(folder, folder / "no data")


@pytest.mark.slow  # Ray starts its processes, and each worker imports torch
def test_inline_and_ray_give_the_same_bits_from_several_blocks_with_noise_both_ways(tmp_path: Path) -> None:
    data, told = written(tmp_path / "data"), Told()
    inline, ray = (Place(tmp_path / name, data) for name in ("inline", "ray"))
    InlineEngine(1, 2).run([*CELLS, TWO_PARTIES], inline, Told())
    RayEngine(2, HERE).run([*CELLS, TWO_PARTIES], ray, told)
    ours, theirs = (one.shelf.get(TWO_PARTIES) for one in (inline, ray))
    assert (ours.figures, ours.facts, ours.series) == (theirs.figures, theirs.facts, theirs.series)
    for cell in CELLS:
        ours, theirs = inline.shelf.get(cell), ray.shelf.get(cell)
        assert ours.figures == theirs.figures
        assert ours.facts == theirs.facts
        assert ours.facts["model sha256"]
        rounds = told.rounds[cell.arm, cell.seed]
        assert rounds == [(number, ours.figures[number - 1]) for number, _ in rounds]
    noise = inline.shelf.get(NOISED).facts
    assert noise["download noise std"]
    assert noise["least upload noise std"]
    assert sorted(told.ended) == sorted((cell.arm, cell.seed) for cell in [*CELLS, TWO_PARTIES])


@pytest.mark.slow  # as above
def test_a_cell_that_fails_is_one_line_and_what_is_finished_stays(tmp_path: Path) -> None:
    here, plain = place(tmp_path), PLAIN.lasting(1)
    with pytest.raises(UserError, match=r"^own, seed 0: the scales are stuck \(log: ") as raised:
        RayEngine(1, HERE).run([plain, BREAKING, plain.seeded(1)], here, Told())
    assert raised.value.status == 1
    assert here.shelf.holds(plain)
    assert not here.shelf.holds(BREAKING)
    assert not here.shelf.holds(plain.seeded(1))
    assert "ray::train_alone" in here.shelf.log(BREAKING).read_text()


def test_news_are_taken_once() -> None:
    news = News()
    news.told("plain", 0, 1, 0.5)
    assert news.taken() == [("plain", 0, 1, 0.5)]
    assert news.taken() == []


# -- addresses ---------------------------------------------------------------------------------------------


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


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_one_line(closed: str, scheme: str, tmp_path: Path) -> None:
    section = RaySection(address=scheme + closed)
    with pytest.raises(UserError, match=r"does not answer \(Connection refused\); start one with") as raised:
        RayEngine(1, section).run([PLAIN], place(tmp_path), Told())
    assert str(raised.value).startswith(f"ray.address = {scheme}{closed} ")
    assert raised.value.status == 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\0\0\0"])
def test_an_address_where_something_else_listens_is_one_line(answer: bytes) -> None:
    with answering(answer) as address, pytest.raises(UserError, match="answers, but not as Ray does"):
        reach(address)


def test_an_address_where_http_2_is_spoken_may_be_ray() -> None:
    with answering(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))) as address:
        reach(f"ray://{address}")


@pytest.mark.parametrize("address", ["no.such.host.invalid:1", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_one_line(address: str) -> None:
    with pytest.raises(UserError, match="does not answer") as raised:
        reach(address)
    assert "\n" not in str(raised.value)


def test_without_a_cluster_on_this_machine_auto_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a cluster at auto cannot be used") as raised:
        RayEngine(1, RaySection(address="auto")).run([PLAIN], place(tmp_path), Told())
    assert raised.value.status == 1


def test_a_cluster_of_this_machine_that_can_not_be_started_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Ray's own error for a lack of room for its store; no part of ours is replaced."""

    def no_room(*_: object, **__: object) -> None:
        raise ValueError("the store has\nno room")

    monkeypatch.setattr("ray.init", no_room)
    with pytest.raises(UserError) as raised:
        RayEngine(1, HERE).run([PLAIN], place(tmp_path), Told())
    assert str(raised.value) == (
        "--engine ray: a cluster of this machine cannot be started (the store has no room)"
    )
