import asyncio
import fcntl
import gzip
import os
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from scenarios.__main__ import main
from scenarios.data import downloads
from scenarios.data.downloads import PUBLISHED, Published, fetch
from scenarios.data.images import FEMNIST_FILE, MNIST_FILES
from tests.unit.scenarios.publisher import (
    CONTENT,
    FILE,
    NAME,
    PROXIES,
    UNSUMMED,
    Publisher,
    get,
    nobody_there,
    publishing,
    put,
    refusal,
    there,
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


# ---- What goes well


async def test_a_file_is_fetched_checked_and_put_in_its_place(tmp_path: Path) -> None:
    publisher = Publisher()
    async with publishing(publisher) as published:
        said = await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}
    assert said.splitlines() == [f"{tmp_path / 'set' / NAME}: 0.1 MB, sha256 as published"]
    assert publisher.asked == [None]
    assert publisher.encodings == {"identity"}


async def test_a_server_that_takes_the_files_own_gzip_for_a_coding_does_no_harm(tmp_path: Path) -> None:
    async with publishing(Publisher(coding="gzip")) as published:
        await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}


async def test_what_is_there_and_whole_is_not_fetched_again(tmp_path: Path) -> None:
    publisher = Publisher()
    async with publishing(publisher) as published:
        await get(published, tmp_path)
        said = await get(published, tmp_path)
    assert len(publisher.asked) == 1
    assert "is there, sha256 as published" in said


async def test_a_whole_file_with_other_bytes_is_kept_and_named_so(tmp_path: Path) -> None:
    other = gzip.compress(gzip.decompress(CONTENT), 1)
    put(tmp_path, NAME, other)
    publisher = Publisher()
    async with publishing(publisher) as published:
        said = await get(published, tmp_path)
    assert publisher.asked == []
    assert there(tmp_path) == {NAME: other}
    assert "whole, not the publisher's bytes, kept" in said


async def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    put(tmp_path, NAME, CONTENT[:-20])
    async with publishing(Publisher()) as published:
        said = await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}
    assert "cannot be read (Compressed file ended" in said
    assert "it is fetched again" in said


async def test_without_a_checksum_the_structure_is_checked_and_that_is_said(tmp_path: Path) -> None:
    async with publishing(Publisher()) as published:
        unsummed = replace(published, files=(UNSUMMED,))
        first, again = await get(unsummed, tmp_path), await get(unsummed, tmp_path)
    assert "its publisher gives no checksum, its structure is whole" in first
    assert "its publisher gives no checksum, its structure is whole" in again


async def test_without_a_terminal_there_is_no_bar_and_with_one_there_is(tmp_path: Path) -> None:
    said = StringIO()
    async with publishing(Publisher()) as published:
        await fetch(published, tmp_path, Console(file=said, force_terminal=True, width=120))
    assert NAME in said.getvalue()
    assert "━" in said.getvalue()


# ---- The folder


async def test_a_folder_that_can_not_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with publishing(Publisher()) as published:
        said = await refusal(published, tmp_path / "file")
    assert "cannot be written (Not a directory)" in said


async def test_a_full_disk_is_one_line_and_not_taken_for_a_bad_mirror(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / f"{NAME}.partial").symlink_to("/dev/full")
    async with publishing(Publisher()) as published:
        said = await refusal(published, tmp_path)
    assert "cannot be written (No space left on device)" in said


async def test_a_folder_in_use_by_another_download_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    descriptor = os.open(tmp_path / "set", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        async with publishing(Publisher()) as published:
            said = await refusal(published, tmp_path)
    finally:
        os.close(descriptor)
    assert "in use by another download" in said
    assert there(tmp_path) == {}


# ---- The command


def test_every_published_file_is_one_that_is_loaded() -> None:
    mnist = PUBLISHED["mnist"]
    for file in mnist.files:
        assert file.sha256 is not None
        assert len(file.sha256) == 64
    assert tuple(f"{mnist.folder}/{file.name}" for file in mnist.files) == MNIST_FILES
    assert len(mnist.mirrors) == 2
    assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in mnist.mirrors)


async def test_the_command_fetches_into_the_folder_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path / "a"))
    async with publishing(Publisher()) as published:
        monkeypatch.setitem(PUBLISHED, "mnist", published)
        assert await asyncio.to_thread(main, ["data", "mnist"]) == 0
        assert await asyncio.to_thread(main, ["data", "mnist", "--data-dir", str(tmp_path / "b")]) == 0
    assert there(tmp_path / "a") == there(tmp_path / "b") == {NAME: CONTENT}
    assert "sha256 as published" in capsys.readouterr().out


def test_the_command_without_a_network_is_one_line_and_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PUBLISHED, "mnist", Published("mnist", (nobody_there(),), (FILE,)))
    assert main(["data", "mnist", "--data-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("scenarios: labels.gz could not be fetched: 127.0.0.1:")


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_what_is_embedded_needs_no_download(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", name, "--data-dir", str(tmp_path)]) == 0
    assert "there is nothing to get" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_publishes_is_one_line_that_says_what_it_must_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "femnist-digits", "--data-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no publisher offers this file" in said
    assert f"{tmp_path}/{FEMNIST_FILE}" in said


def test_what_nobody_publishes_is_judged_by_its_structure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FEMNIST_FILE).parent.mkdir()
    images = np.full((4, 28, 28), 255, np.uint8)
    np.savez(tmp_path / FEMNIST_FILE, images=images, labels=np.arange(4), client=np.arange(4))
    assert main(["data", "femnist-digits", "--data-dir", str(tmp_path)]) == 0
    assert "no checksum is known, the structure is whole" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["adult", "loan"])
def test_a_table_that_nobody_fetches_is_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", name, "--data-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"data set {name}: {tmp_path}/{name}/" in said
    assert "it is not downloaded" in said


def test_an_unknown_name_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "mnits"]) == 2
    assert "data set 'mnits' is unknown; allowed: digits" in capsys.readouterr().err


def test_without_a_name_it_says_where_each_lies_and_how_large_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in MNIST_FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(1_000_000))
    assert main(["data", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "in scikit-learn" in said
    assert "4.0 MB" in said
    assert "missing, unpublished" in said
    assert "Data lies in" in said
    assert main(["data", "--data-dir", str(tmp_path / "empty")]) == 0
    assert "missing, 11.6 MB" in capsys.readouterr().out
    assert not (tmp_path / "empty").exists()


@pytest.mark.parametrize("name", ["", "mnist", "femnist-digits"])
def test_a_folder_that_the_system_refuses_is_one_line(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["data", *name.split(), "--data-dir", str(tmp_path / ("x" * 300))]) == 1
    said = capsys.readouterr().err
    assert "File name too long" in said
    assert "--data-dir" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("size", "said"), [(4_542, "4.5 kB"), (100_000, "0.1 MB"), (11_594_722, "11.6 MB")])
def test_sizes_are_readable(size: int, said: str) -> None:
    assert downloads.megabytes(size) == said
