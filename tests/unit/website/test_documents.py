"""What the documents for those who change the code say of its files is true."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [
    "ARCHITECTURE.md",
    *(
        f"docs/{name}.md"
        for name in ("where-to-change", "protocol", "runtime", "searches", "quorum", "faults")
    ),
]
FOLDERS = "protocol|mechanisms|node|scenarios|benchmarks|tests|website|deploy|docs"
_PATH = re.compile(rf"`((?:{FOLDERS})/[\w/.-]*)`")
_TEST = re.compile(r"`(test_\w+\.py)")
_PICTURE = re.compile(r'(?:src|srcset)="([^"]+)"')


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_and_folder_that_a_document_names_is_there(name):
    text = (ROOT / name).read_text("utf-8")
    assert not [path for path in _PATH.findall(text) if not (ROOT / path).exists()]
    assert not [path for path in _TEST.findall(text) if not list((ROOT / "tests").rglob(path))]


def test_the_map_has_a_row_for_every_folder_of_the_four_packages():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    named = {part.strip("/") for row in rows for part in re.findall(r"`([\w/]+/)`", row.split("|")[1])}
    folders = {
        str(path.parent.relative_to(ROOT))
        for package in ("protocol", "mechanisms", "node")
        for path in (ROOT / package).rglob("*.py")
    }
    last = {folder for folder in folders if folder not in named and folder.rpartition("/")[2] not in named}
    assert not last


def test_every_picture_of_the_first_page_is_there_and_small():
    found = [ROOT / path for path in _PICTURE.findall((ROOT / "README.md").read_text("utf-8"))]
    assert len(found) == 4
    assert not [path for path in found if not path.is_file() or path.stat().st_size > 150_000]
