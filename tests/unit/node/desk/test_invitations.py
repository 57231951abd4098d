"""The command lines by which people come together, and what is kept of what was typed."""

import shlex
import stat

import pytest

from node.desk.folder import Folder
from node.desk.form import Form, Garbage
from node.desk.invitations import HABITS, LINES, Habits, kept_habits
from node.system.errors import ConfigError
from tests.unit.node.desk.wards import ward_csv

RELAYS = "relay.example#v8k2-qm4t\nrelay-2.example#0000-0001 "
INVITE = {"task": "w.toml", "data": "ward.csv", "relay": RELAYS, "me": "Ward A"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ward_csv(tmp_path / "ward.csv")
    (tmp_path / "w.toml").write_text('[task]\nname = "sepsis"\n[model]\nclass = "node.models:Linear"\n')
    return Folder(tmp_path)


def line(folder: Folder, command: str, **fields: object):
    return LINES[command](folder, Form(fields))


def test_an_invitation_names_all_and_its_folder(folder):
    found = line(folder, "invite", **INVITE, names=["Ward B", " ", "Ward C "])
    assert shlex.split(found.command) == [
        *("murmuration", "invite", "w.toml", "--data", "ward.csv", "--me", "Ward A"),
        *("--relay", "relay.example#v8k2-qm4t", "--relay", "relay-2.example#0000-0001", "Ward B", "Ward C"),
    ]
    assert found.folder == "runs/sepsis"
    read = found.read()
    assert (read.names, read.me) == (("Ward B", "Ward C"), "Ward A")
    assert (str(read.data), read.yes) == ("ward.csv", False)


def test_relays_and_own_name_are_kept_for_the_owner_alone(folder):
    assert kept_habits(folder) == Habits()
    line(folder, "invite", **INVITE, names=["Ward B"])
    assert kept_habits(folder) == Habits(RELAYS.strip(), "Ward A")
    assert stat.S_IMODE((folder.path / HABITS).stat().st_mode) == 0o600
    for content in (b"{", b"[]", b'{"relay": 3, "me": ""}', b"[" * 50_000, b"\xff"):
        (folder.path / HABITS).write_bytes(content)
        assert kept_habits(folder) == Habits()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"relay": "relay.example"}, "--relay 'relay.example' is refused"),
        ({"relay": " "}, "--relay '' is refused"),
        ({"me": ""}, "--me '' is refused"),
        ({"names": []}, "nobody is named"),
        ({"names": ["--yes"]}, "the name '--yes' is refused"),
        ({"task": "ward.csv"}, "is no TOML"),
        ({"task": "../w.toml"}, "leads out of the folder"),
        ({"data": "../ward.csv"}, "leads out of the folder"),
    ],
)
def test_what_cannot_be_an_invitation_is_refused_and_not_kept(folder, changed, told):
    with pytest.raises(ConfigError) as error:
        line(folder, "invite", **{**INVITE, "names": ["Ward B"], **changed})
    assert told in str(error.value)
    assert kept_habits(folder) == Habits()


def test_the_words_of_a_code_are_checked_before_it_is_tried(folder):
    found = line(folder, "join", code=" RELAY.example/48213-otter-width-salt ", data="ward.csv")
    assert found.command == "murmuration join relay.example/48213-otter-width-salt --data ward.csv"
    assert (found.room, found.read().code.room, found.read().allow_code) == ("48213", "48213", False)
    allowing = {"code": "relay.example/48213-otter-width-salt", "data": "ward.csv", "allow-code": True}
    assert line(folder, "join", **allowing).command == f"{found.command} --allow-code"
    with pytest.raises(ConfigError, match='no word "slat"; did you mean salt'):
        line(folder, "join", code="relay.example/48213-otter-width-slat", data="ward.csv")
    for code in ("", "--yes", "relay.example", "-x/48213-otter-width-salt"):
        with pytest.raises(ConfigError):
            line(folder, "join", code=code, data="ward.csv")


def test_a_swarm_is_started_and_its_members_changed_in_its_folder(folder):
    (folder.path / "runs" / "sepsis").mkdir(parents=True)
    found = line(folder, "start", run="runs/sepsis")
    assert (found.command, found.folder) == ("murmuration start runs/sepsis", "runs/sepsis")
    assert found.read().yes is False
    for name in ("Ward C", "--accept", "-x"):
        read = line(folder, "members", run="runs/sepsis", does="remove", name=name).read()
        assert (read.remove, read.accept) == (name, None)
    later = line(folder, "later", run="runs/sepsis", name="Ward D")
    assert (later.command, later.folder) == ("murmuration invite runs/sepsis 'Ward D'", "runs/sepsis")
    assert later.read().names == ("Ward D",)
    with pytest.raises(ConfigError, match="the name '--yes' is refused"):
        line(folder, "later", run="runs/sepsis", name="--yes")
    with pytest.raises(Garbage):
        line(folder, "members", run="runs/sepsis", does="yes", name="Ward C")
    for name in ("start", "members"):
        with pytest.raises(ConfigError, match="leads out"):
            line(folder, name, run="..", does="remove", name="Ward C")
