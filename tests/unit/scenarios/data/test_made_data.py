"""What no publisher offers as it is read, made from small archives in the publishers' formats."""

import asyncio
import csv
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scenarios.__main__ import main
from scenarios.data import made_tables, nist_digits
from scenarios.data.criteo import FILES as CRITEO_FILES
from scenarios.data.criteo import criteo
from scenarios.data.dataset import Damaged
from scenarios.data.images import read_femnist
from scenarios.data.made_tables import (
    CRITEO_ARCHIVE,
    LOAN_ARCHIVE,
    check_loans,
    make_criteo,
    make_loans,
    pack,
)
from scenarios.data.nist_digits import make_femnist
from scenarios.data.published import PUBLISHED
from scenarios.data.sources import ALL
from scenarios.data.tabular import LOAN, LOAN_FILE
from tests.unit.scenarios.data.test_tabular import ROWS as ADULT_ROWS
from tests.unit.scenarios.data.test_tabular import TEST as ADULT_TEST
from tests.unit.scenarios.publisher import Publisher, publishing


def png(seed: int, side: int = 128) -> bytes:
    """Returns a white image with a dark square whose place depends on the seed."""
    pixels = np.full((side, side, 3), 255, np.uint8)
    row, column = divmod(seed, 7)
    pixels[row % 100 : row % 100 + 20, column * 10 : column * 10 + 20] = 0
    pixels[127 % side, seed % side] = seed // 128 % 256
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def nist(folder: Path, writers: int = 5, digits: int = 20, unlisted: int = 0) -> Path:
    """Writes an archive and a list in NIST's layout; a writer's images have the classes 0 to 9 in turn."""
    raw = folder / "nist_sd19"
    raw.mkdir()
    listed = []
    with zipfile.ZipFile(raw / nist_digits.ARCHIVE, "w") as archive:
        for writer in range(writers):
            name = f"f{writer:04}_{writer + 10}"
            for number in range(digits):
                content = png(writer * digits + number)
                field = f"d{name[1:]}"
                archive.writestr(f"by_write/hsf_{writer % 4}/{name}/{field}/{field}_{number:05}.png", content)
                listed.append((hashlib.md5(content).hexdigest(), number % 10))
            letter = f"u{name[1:]}"
            archive.writestr(f"by_write/hsf_0/{name}/{letter}/{letter}_00000.png", png(9000 + writer))
            archive.writestr(f"by_write/hsf_0/{name}/d{name[1:]}.mit", "20\n")
    lines = [f"{md5}  by_class/3{digit}/hsf_0/hsf_0_{row:05}.png" for row, (md5, digit) in enumerate(listed)]
    letters = [
        f"{hashlib.md5(png(9000 + row)).hexdigest()}  by_class/4a/hsf_0/a.png" for row in range(writers)
    ]
    (raw / nist_digits.CLASSES).write_text("\n".join([*letters, *lines[unlisted:]]) + "\n")
    return raw


def test_each_writer_is_a_client_and_each_image_has_the_class_of_the_equal_image(tmp_path: Path) -> None:
    make_femnist(nist(tmp_path), tmp_path / "made.npz")
    images, labels, clients = read_femnist(tmp_path / "made.npz")
    assert images.shape == (100, 28, 28)
    assert np.bincount(clients).tolist() == [20] * 5
    np.testing.assert_array_equal(labels, np.tile(np.arange(20) % 10, 5))
    with np.load(tmp_path / "made.npz") as arrays:
        names = arrays["writer"].tolist()
    assert sorted(names) == [f"f{writer:04}_{writer + 10}" for writer in range(5)]
    first = int(names[0][1:5]) * 20  # the seed of the first client's first image
    with Image.open(io.BytesIO(png(first))) as image:
        small = image.convert("L").resize((28, 28), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(images[0], np.asarray(small))


def test_writers_are_drawn_until_there_are_enough_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(nist_digits, "ROWS", 41)
    raw = nist(tmp_path)
    make_femnist(raw, tmp_path / "once.npz")
    make_femnist(raw, tmp_path / "again.npz")
    images, _, clients = read_femnist(tmp_path / "once.npz")
    assert np.bincount(clients).tolist() == [20] * 3
    np.testing.assert_array_equal(images, read_femnist(tmp_path / "again.npz")[0])


def test_an_archive_of_something_else_or_without_enough_known_classes_is_refused(tmp_path):
    for name in ("few", "many"):
        (tmp_path / name).mkdir()
    make_femnist(nist(tmp_path / "few", unlisted=3), tmp_path / "made.npz")
    assert len(read_femnist(tmp_path / "made.npz")[0]) == 97
    with pytest.raises(Damaged, match="has a class for 90 of 100 images"):
        make_femnist(nist(tmp_path / "many", unlisted=10), tmp_path / "made.npz")
    raw = nist(tmp_path)
    with zipfile.ZipFile(raw / nist_digits.ARCHIVE, "w") as archive:
        archive.writestr("../by_write/hsf_0/f0000_14/d0000_14/d0000_14_00000.png", png(1))
    with pytest.raises(Damaged, match="has no image such as by_write"):
        make_femnist(raw, tmp_path / "made.npz")
    (raw / nist_digits.ARCHIVE).write_bytes((raw / nist_digits.ARCHIVE).read_bytes()[:-10])
    with pytest.raises(Damaged, match="is no whole zip archive"):
        nist_digits.check_archive(raw / nist_digits.ARCHIVE)


def test_a_list_of_checksums_in_any_of_the_usual_formats(tmp_path: Path) -> None:
    for line in (
        "{md5}  by_class/37/hsf_0/hsf_0_00000.png",
        "{md5} */data/by_class/37/train_37/train_37_00000.png",
        "MD5 (./37/hsf_6/hsf_6_00000.png) = {md5}",
    ):
        (tmp_path / "list").write_text(line.format(md5="ab" * 16) + "\n")
        assert nist_digits.read_classes(tmp_path / "list") == {b"\xab" * 16: 7}
    for content, said in (
        (b"", "lists no digit"),
        (b"ab" * 16 + b"  by_class/41/hsf_0/a.png\n", "lists no digit"),
        (b"x" * 5000, "a line of more than 4096 bytes"),
    ):
        (tmp_path / "list").write_bytes(content)
        with pytest.raises(Damaged, match=said):
            nist_digits.read_classes(tmp_path / "list")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no image", "cannot be read"),
        (png(1, 64), r"has \(64, 64\) pixels; allowed: 128 x 128"),
        (bytes(1 << 19), "has 524288 bytes"),
        (png(1)[:-30], "cannot be read"),
    ],
)
def test_a_damaged_image_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    raw = tmp_path
    with zipfile.ZipFile(raw / nist_digits.ARCHIVE, "w") as archive:
        archive.writestr("by_write/hsf_0/f0000_14/d0000_14/d0000_14_00000.png", content)
    md5 = hashlib.md5(content).hexdigest()
    (raw / nist_digits.CLASSES).write_text(f"{md5}  by_class/30/hsf_0/a.png\n")
    with pytest.raises(Damaged, match=said):
        make_femnist(raw, tmp_path / "made.npz")


KEPT = ["5000", " 36 months", "10+ years", "RENT", "24000", "Verified", "860xx", "AZ", "0", "1", "3", "0"]
KEPT = [*KEPT, "13648", "83.7%", "9"]
HEADER = ["id", *LOAN.header[:-1], "desc", "loan_status"]


def lending_club(
    folder: Path, rows: list[list[str]], header: list[str] = HEADER, note: str = "Notes"
) -> Path:
    """Writes LendingClub's archive: a note, the header, the loans, and notes below them."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    text.write(f"{note} offered by Prospectus\n")
    writer.writerow(header)
    writer.writerows(rows)
    text.write("\nTotal amount funded in policy code 1: 460296150\n")
    with zipfile.ZipFile(folder / LOAN_ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("LoanStats3a.csv", text.getvalue())
    return folder


def row(status: str, description: str = "") -> list[str]:
    return ["1077501", *KEPT, description, status]


def test_closed_loans_of_the_columns_that_are_read_are_kept_and_others_refused(tmp_path):
    unpoliced = "Does not meet the credit policy. Status:Fully Paid"
    rows = [row("Fully Paid", 'said "no",\nand more'), row(unpoliced), row("Charged Off"), row("Current")]
    (tmp_path / LOAN_FILE).parent.mkdir()
    make_loans(lending_club(tmp_path, rows), tmp_path / LOAN_FILE)
    with gzip.open(tmp_path / LOAN_FILE, "rt", newline="") as file:
        found = list(csv.reader(file))
    assert found[0] == list(LOAN.header)
    plain = [cell.strip() for cell in KEPT]
    assert found[1:] == [[*plain, "Fully Paid"], [*plain, "Charged Off"]]
    lending_club(tmp_path, [], [name for name in HEADER if name != "revol_util"])
    with pytest.raises(Damaged, match="lacks the column revol_util"):
        make_loans(tmp_path, tmp_path / "made.gz")
    lending_club(tmp_path, [], ["a", "b"])
    with pytest.raises(Damaged, match="none of the first 10 lines has a column loan_status"):
        make_loans(tmp_path, tmp_path / "made.gz")


def test_an_archive_of_loans_that_is_damaged_is_refused(tmp_path, monkeypatch):
    path = lending_club(tmp_path, [row("Fully Paid", "".join(map(str, range(500))))]) / LOAN_ARCHIVE
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged, match="cannot be read"):
        check_loans(path)
    with pytest.raises(Damaged, match="cannot be read"):
        make_loans(tmp_path, tmp_path / "made.gz")
    changed = bytearray(whole)
    changed[zipfile.sizeFileHeader + len("LoanStats3a.csv") + 40] ^= 1
    path.write_bytes(changed)
    with pytest.raises(Damaged):
        check_loans(path)
    path.write_bytes(whole)
    monkeypatch.setattr(made_tables, "MOST_BYTES", 100)
    with pytest.raises(Damaged, match="one of at most 100 bytes"):
        check_loans(path)


def sample(folder: Path, lines: int, member: str = "dac_sample.txt") -> Path:
    """Writes Criteo's archive: rows whose first number is their place in the file."""
    drawn = np.random.default_rng(0)
    content = "".join(
        "\t".join(
            [str(place % 2), str(place), *["7"] * 12, *(f"{cell:08x}" for cell in drawn.integers(0, 3, 26))]
        )
        + "\n"
        for place in range(lines)
    ).encode()
    with tarfile.open(folder / CRITEO_ARCHIVE, "w:gz") as archive:
        for name, text in (("license.txt", b"terms\n"), (member, content)):
            entry = tarfile.TarInfo(f"dac_sample/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return folder


def test_the_first_rows_are_drawn_into_three_files_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "criteo").mkdir()
    targets = [tmp_path / name for name in CRITEO_FILES]
    make_criteo(sample(tmp_path, 8100), *targets)
    texts = [gzip.decompress(target.read_bytes()) for target in targets]
    places = [[int(line.split(b"\t")[1]) for line in text.splitlines()] for text in texts]
    assert [len(part) for part in places] == [7200, 409, 391]
    assert sorted(chain(*places)) == list(range(8000))
    assert all(part == sorted(part) for part in places)
    assert max(places[2]) > 7000
    assert min(places[2]) < 1000
    assert len(criteo(tmp_path, 10).train.labels) == 7200
    first = targets[0].read_bytes()
    make_criteo(tmp_path, *targets)
    assert targets[0].read_bytes() == first


def test_a_sample_without_its_file_or_with_too_few_rows_is_refused(tmp_path):
    with pytest.raises(
        Damaged, match=r"dac_sample.txt has 50 whole lines of at most 4096 bytes; needed: 8000"
    ):
        make_criteo(sample(tmp_path, 50), *(tmp_path / f"{part}.gz" for part in range(3)))
    sample(tmp_path, 50, "other.txt")
    with pytest.raises(Damaged, match=r"lacks dac_sample\.txt"):
        made_tables.check_criteo(tmp_path / CRITEO_ARCHIVE)
    (tmp_path / CRITEO_ARCHIVE).write_bytes(b"no archive")
    with pytest.raises(Damaged, match="cannot be read"):
        made_tables.check_criteo(tmp_path / CRITEO_ARCHIVE)


def adult_files(folder: Path) -> Path:
    (folder / "adult.data").write_text("\n".join(ADULT_ROWS) + "\n")
    (folder / "adult.test").write_text("\n".join(ADULT_TEST) + "\n")
    return folder


OFFERED: dict[str, Callable[[Path], Path]] = {
    "adult": adult_files,
    "criteo": lambda folder: sample(folder, 8000),
    "femnist-digits": nist,
    "loan": lambda folder: lending_club(folder, [row("Fully Paid"), row("Charged Off")] * 10),
}


def test_equal_files_are_packed_to_equal_bytes_and_all_that_is_made_is_tested(tmp_path):
    assert set(OFFERED) == {name for name, published in PUBLISHED.items() if published.recipes}
    (tmp_path / "a").write_bytes(b"39, State-gov\n" * 1000)
    pack(tmp_path / "a", tmp_path / "a.gz")
    pack(tmp_path / "a", tmp_path / "b.gz")
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == (tmp_path / "a").read_bytes()
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.sampled("adult", "femnist-digits", "loan")
@pytest.mark.parametrize("name", OFFERED)
async def test_what_is_offered_is_fetched_made_and_read(name, tmp_path, monkeypatch, capsys):
    raw, data, published = tmp_path / "raw", tmp_path / "data", PUBLISHED[name]
    raw.mkdir()
    offered = OFFERED[name](raw)
    publisher = Publisher(named={file.name: (offered / file.name).read_bytes() for file in published.files})
    files = tuple(replace(file, size_bytes=None, digest=None) for file in published.files)
    async with publishing(publisher) as server:
        monkeypatch.setitem(PUBLISHED, name, replace(published, mirrors=server.mirrors, files=files))
        command = ["data", name, "--data-dir", str(data)]
        assert await asyncio.to_thread(main, command) == 0
        said = capsys.readouterr().out
        assert await asyncio.to_thread(main, command) == 0
        again = capsys.readouterr().out
        assert len(publisher.asked) == len(files)
        (data / ALL[name].files[0]).write_bytes(b"damaged")
        assert await asyncio.to_thread(main, command) == 0
    assert len(publisher.asked) == len(files)
    assert f"{data / ALL[name].files[0]}: " in said
    assert ", made by " in said
    assert "the structure is whole" in again
    assert "it is made again" in capsys.readouterr().out
    assert ALL[name].read(data, np.random.default_rng(0)).description.startswith(name)
    assert not list(data.rglob("*.partial"))


def test_a_file_from_elsewhere_of_which_nothing_can_be_made_is_one_line(tmp_path, one_line):
    (tmp_path / "loan").mkdir()
    lending_club(tmp_path / "loan", [], ["a", "b"])
    line = one_line(main, ["data", "loan", "--data-dir", str(tmp_path)], status=1)
    assert "has a column loan_status; remove that file and run the command again" in line
    assert not (tmp_path / LOAN_FILE).exists()


@pytest.mark.parametrize("name", ["adult", "femnist-digits", "loan"])
async def test_a_full_disk_is_not_taken_for_a_damaged_file(name, tmp_path, monkeypatch, capsys):
    published = PUBLISHED[name]
    (tmp_path / "raw").mkdir()
    offered = OFFERED[name](tmp_path / "raw")
    (tmp_path / published.folder).mkdir(exist_ok=True)
    for file in published.files:
        (offered / file.name).rename(tmp_path / published.folder / file.name)
    made = tmp_path / ALL[name].files[0]
    made.parent.mkdir(exist_ok=True)
    made.with_name(f"{made.name}.partial").symlink_to("/dev/full")
    assert await asyncio.to_thread(main, ["data", name, "--data-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"{made.parent} cannot be written (No space left on device); make room" in said
    assert said.count("\n") == 1
    assert not made.exists()
