"""Broken connections, and mirrors with wrong answers."""

import asyncio
import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.data import downloads
from scenarios.data.downloads import TRIES
from scenarios.data.published import Digest, Published
from tests.unit.scenarios.publisher import (
    CONTENT,
    FILE,
    NAME,
    SHA256,
    UNKNOWN,
    UNSIZED,
    UNSUMMED,
    Publisher,
    get,
    nobody_there,
    publishing,
    put,
    refusal,
    there,
)


@pytest.mark.parametrize(
    ("cuts", "ranges", "asked"),
    [([50_000, 30_000], True, ["bytes=50000-", "bytes=80000-"]), ([50_000], False, ["bytes=50000-"])],
)
async def test_a_cut_transfer_goes_on_where_it_was_cut_or_begins_again(cuts, ranges, asked, tmp_path):
    publisher = Publisher(cuts=cuts, ranges=ranges)
    async with publishing(publisher) as published:
        await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}
    assert publisher.asked == [None, *asked]


async def test_a_cut_transfer_goes_on_in_the_next_run(tmp_path: Path) -> None:
    publisher = Publisher(cuts=[20_000] * TRIES)
    async with publishing(publisher) as published:
        said = await refusal(published, tmp_path)
        assert there(tmp_path) == {f"{NAME}.partial": CONTENT[: 20_000 * TRIES]}
        assert f"at {20_000 * TRIES} of {len(CONTENT)} bytes" in said
        assert "which goes on after 80.0 kB" in said
        await get(published, tmp_path)
    assert publisher.asked[-1] == f"bytes={20_000 * TRIES}-"
    assert there(tmp_path) == {NAME: CONTENT}


async def test_an_answer_that_ends_early_or_is_not_the_range_that_was_asked_for_is_a_cut_one(tmp_path):
    short = Publisher(CONTENT[:40_000], announced=False)
    async with publishing(short) as published:
        said = await refusal(published, tmp_path)
    assert f"at 40000 of {len(CONTENT)} bytes" in said or "has no byte 40000" in said
    assert NAME not in there(tmp_path)
    async with publishing(Publisher(cuts=[1000], shift=7)) as published:
        said = await refusal(published, tmp_path / "shifted")
    assert "sent another range than from byte 1000 on" in said
    assert there(tmp_path / "shifted") == {f"{NAME}.partial": CONTENT[:1000]}


async def test_the_next_mirror_goes_on_where_the_last_one_was_cut(tmp_path: Path) -> None:
    first, second = Publisher(cuts=[10_000] * TRIES), Publisher()
    async with publishing(first, second) as published:
        await get(published, tmp_path)
    assert second.asked == [f"bytes={10_000 * TRIES}-"]
    assert there(tmp_path) == {NAME: CONTENT}


async def test_a_mirror_that_falls_silent_is_left_and_what_it_sent_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "SILENCE_S", 0.5)
    first, second = Publisher(cuts=[20_000] * TRIES), Publisher()
    first.silent.clear()
    async with publishing(first, second) as published:
        await get(published, tmp_path)
        first.silent.set()
    assert len(first.asked) == TRIES
    assert second.asked != [None]
    assert there(tmp_path) == {NAME: CONTENT}


async def test_what_arrived_whole_is_only_judged_and_without_a_checksum_nothing_is_gone_on_with(tmp_path):
    put(tmp_path, f"{NAME}.partial", CONTENT)
    publisher = Publisher()
    async with publishing(publisher) as published:
        await get(published, tmp_path)
    assert publisher.asked == []
    assert there(tmp_path) == {NAME: CONTENT}
    (tmp_path / "set" / NAME).unlink()
    put(tmp_path, f"{NAME}.partial", CONTENT[:100])
    publisher = Publisher(cuts=[50_000])
    async with publishing(publisher) as published:
        await get(replace(published, files=(UNSUMMED,)), tmp_path)
    assert publisher.asked == [None, None]
    assert there(tmp_path)[NAME] == CONTENT


@pytest.mark.parametrize("left", [b"other bytes", CONTENT + b"more", bytes(len(CONTENT)), CONTENT[:9] + b"?"])
async def test_a_partial_file_of_something_else_does_no_harm(left: bytes, tmp_path: Path) -> None:
    put(tmp_path, f"{NAME}.partial", left)
    async with publishing(Publisher()) as published:
        await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}


@pytest.mark.parametrize("left", [CONTENT[:50_000], CONTENT, bytes(len(CONTENT))])
async def test_a_file_of_unknown_size_goes_on_by_its_digest(left: bytes, tmp_path: Path) -> None:
    """What is whole is only judged; foreign bytes are found out, and the file begins again."""
    put(tmp_path, f"{NAME}.partial", left)
    publisher = Publisher()
    async with publishing(publisher) as published:
        await get(replace(published, files=(UNSIZED,)), tmp_path)
    asked = {50_000: ["bytes=50000-"], len(CONTENT): [] if left == CONTENT else [f"bytes={len(left)}-", None]}
    assert publisher.asked == asked[len(left)]
    assert there(tmp_path) == {NAME: CONTENT}


async def arrived(publisher: Publisher, partial: Path, size_bytes: int) -> None:
    """Waits until the bytes that were sent are on the disk, which alone shows it."""
    await publisher.sent.wait()
    while size(partial) < size_bytes:  # noqa: ASYNC110 - another process writes the file
        await asyncio.sleep(0)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def test_an_interrupted_download_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """A task that is cancelled is what Ctrl-C does to `asyncio.run`."""
    publisher = Publisher(cuts=[40_000])
    publisher.silent.clear()
    partial = tmp_path / "set" / f"{NAME}.partial"
    async with publishing(publisher) as published:
        fetching = asyncio.create_task(get(published, tmp_path))
        await arrived(publisher, partial, 40_000)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert there(tmp_path) == {f"{NAME}.partial": CONTENT[:40_000]}
        await get(published, tmp_path)
        publisher.silent.set()
    assert publisher.asked == [None, "bytes=40000-"]
    assert there(tmp_path) == {NAME: CONTENT}


def swapped(content: bytes) -> bytes:
    """Returns the same labels in another order: complete, but not as published."""
    header, labels = gzip.decompress(content)[:8], gzip.decompress(content)[8:]
    other = gzip.compress(header + labels[::-1])
    return other[: len(CONTENT)].ljust(len(CONTENT), b"\0")


async def test_a_wrong_or_damaged_file_is_one_line_and_nothing_is_kept(tmp_path):
    wrong = swapped(CONTENT)
    publisher = Publisher(wrong)
    async with publishing(publisher) as published:
        said = await refusal(published, tmp_path)
    assert f"sha256 {hashlib.sha256(wrong).hexdigest()}, not {SHA256} as published" in said
    assert there(tmp_path) == {}
    assert len(publisher.asked) == 1
    broken = CONTENT[:-4] + b"\0\0\0\0"
    async with publishing(Publisher(broken)) as published:
        said = await refusal(replace(published, files=(UNSUMMED,)), tmp_path)
    assert "sent a damaged file" in said
    assert there(tmp_path) == {}


@pytest.mark.parametrize("wrong", [swapped(CONTENT), b""], ids=["another", "empty"])
async def test_a_mirror_with_a_wrong_or_an_empty_file_is_passed_over(wrong: bytes, tmp_path: Path) -> None:
    """An empty file answers 416 to any range, and also without one."""
    async with publishing(Publisher(wrong), Publisher()) as published:
        await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}


async def test_no_more_is_taken_than_is_published_or_allowed(tmp_path, monkeypatch):
    async with publishing(Publisher(CONTENT + bytes(200_000))) as published:
        said = await refusal(published, tmp_path)
    assert f"sent more than the {len(CONTENT)} bytes that are published" in said
    assert there(tmp_path) == {}
    monkeypatch.setattr(downloads, "MOST_BYTES", 70_000)
    async with publishing(Publisher()) as published:
        said = await refusal(replace(published, files=(UNKNOWN,)), tmp_path)
    assert "sent more than the 70000 bytes that are allowed" in said
    assert there(tmp_path) == {}


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_refusal_is_told_with_its_status_and_the_next_mirror_is_asked(status, tmp_path):
    refusing, other = Publisher(status=status), Publisher()
    async with publishing(refusing) as published:
        said = await refusal(published, tmp_path)
    async with publishing(refusing, other) as published:
        await get(published, tmp_path)
    assert f"answered {status}" in said
    assert len(refusing.asked) == 2
    assert there(tmp_path) == {NAME: CONTENT}


async def test_without_a_network_one_line_says_what_to_do(tmp_path: Path) -> None:
    published = Published("set", (nobody_there(), nobody_there()), (FILE,), ())
    said = await refusal(published, tmp_path)
    assert said.count("cannot be reached") == 2
    assert "Run the command again when there is a network" in said
    assert f"copy the file from elsewhere into {tmp_path / 'set'}" in said
    assert "--data-dir" in said


async def test_files_fetched_before_a_failure_stay(tmp_path: Path) -> None:
    missing = replace(FILE, name="missing.gz", digest=Digest("sha256", "0" * 64, "published"))
    async with publishing(Publisher()) as published:
        await refusal(replace(published, files=(FILE, missing)), tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}


@pytest.mark.parametrize(
    ("url", "final", "private"),
    [
        ("https://a/file", "https://b/file", True),
        ("https://a/file", "http://a/file", False),
        ("http://127.0.0.1/file", "http://127.0.0.1/other", True),
    ],
)
def test_redirections_do_not_leave_https(url: str, final: str, private: bool) -> None:
    assert downloads.stays_private(url, final) is private
