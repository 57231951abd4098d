"""What the page may see: what is in its folder, and nothing that a path or a link leads out to."""

import os

import pytest
from PIL import Image

from node.desk.folder import DataFile, Folder
from node.system.errors import ConfigError
from tests.unit.node.observe.folders import run_in


@pytest.fixture
def folder(tmp_path):
    inner = tmp_path / "mine"
    inner.mkdir()
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    (inner / "ward.csv").write_text("a,b\n1,2\n")
    return Folder(inner)


def refused(folder: Folder, written: str) -> str:
    with pytest.raises(ConfigError) as error:
        folder.inside(written, "data")
    return str(error.value)


def test_what_is_there_is_found_by_its_name(folder):
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "b.parquet").write_bytes(b"")
    for name in ("ward.csv", "sub/b.parquet", "sub", "./ward.csv"):
        assert (folder.path / folder.inside(name, "data")).exists()


@pytest.mark.parametrize(
    "written",
    ["../secret.csv", "sub/../../secret.csv", "sub/../ward.csv", "/etc/passwd", "..", "", "a\0b", "a" * 2000],
)
def test_no_path_leads_out(folder, written):
    (folder.path / "sub").mkdir()
    assert refused(folder, written).startswith("data ")


def test_the_absolute_path_of_a_file_in_the_folder_is_refused(folder):
    assert "leads out" in refused(folder, str(folder.path / "ward.csv"))


def test_no_link_leads_out_and_one_within_is_followed(folder):
    (folder.path / "link.csv").symlink_to(folder.path.parent / "secret.csv")
    (folder.path / "up").symlink_to(folder.path.parent)
    (folder.path / "circle.csv").symlink_to("circle.csv")
    (folder.path / "same.csv").symlink_to("ward.csv")
    for written in ("link.csv", "up/secret.csv", "up"):
        assert "leads out of the folder" in refused(folder, written)
    refused(folder, "circle.csv")
    assert folder.inside("same.csv", "data").name == "same.csv"
    assert [file.name for file in folder.data()] == ["same.csv", "ward.csv"]


def test_a_folder_that_is_itself_a_link_is_the_folder(folder):
    linked = folder.path.parent / "other"
    linked.symlink_to(folder.path)
    assert Folder(linked).inside("ward.csv", "data").name == "ward.csv"
    assert [file.name for file in Folder(linked).data()] == ["ward.csv"]


def test_what_is_gone_is_a_line(folder):
    assert "choose it from the list again" in refused(folder, "gone.csv")


@pytest.mark.parametrize(
    "written", ["../a.toml", "sub/a.toml", ".toml", "-a.toml", "a.csv", "a\n.toml", ".a.toml", ""]
)
def test_a_new_file_has_a_plain_name(folder, written):
    with pytest.raises(ConfigError, match="the task's file"):
        folder.new(written, ".toml", "the task's file")


def test_a_new_file_is_written_through_no_link_that_leads_out(folder):
    (folder.path / "a.toml").symlink_to(folder.path.parent / "b.toml")
    with pytest.raises(ConfigError, match="leads out"):
        folder.new("a.toml", ".toml", "the task's file")
    assert folder.new("ward 2 (new).toml", ".toml", "the task's file").name == "ward 2 (new).toml"
    assert folder.new("Stationsdaten_Ä.toml", ".toml", "the task's file")


def test_the_list_has_data_tasks_and_runs(folder):
    path = folder.path
    for name in ("b.tsv.gz", "c.xlsx", "d.npz", ".hidden.csv", "notes.md"):
        (path / name).write_bytes(b"x")
    for name in ("ill", "well"):
        (path / "scans" / name).mkdir(parents=True)
        Image.new("L", (4, 4)).save(path / "scans" / name / "1.png")
    (path / "deep" / "deeper").mkdir(parents=True)
    (path / "deep" / "e.csv").write_text("a,b\n")
    (path / "deep" / "deeper" / "f.csv").write_text("a,b\n")
    (path / "ward.toml").write_text('[task]\nname = "ward"\n')
    (path / "other.toml").write_text('[tool]\nname = "ward"\n')
    run_in(path / "runs" / "ward-1")
    run_in(path / "alone")

    assert folder.data() == [
        DataFile("b.tsv.gz", "table", 1),
        DataFile("c.xlsx", "workbook", 1),
        DataFile("d.npz", "npz", 1),
        DataFile("scans", "images", None),
        DataFile("ward.csv", "table", 8),
        DataFile("deep/e.csv", "table", 4),
    ]
    assert folder.tasks() == ["ward.toml"]
    assert folder.runs() == ["alone", "runs/ward-1"]


def test_what_is_no_file_is_not_listed(folder):
    os.mkfifo(folder.path / "pipe.csv")
    (folder.path / "named.csv").mkdir()
    os.mkfifo(folder.path / "pipe.toml")
    assert [file.name for file in folder.data()] == ["ward.csv"]
    assert folder.tasks() == []
