"""Folders of an older version become a swarm again; one that was put back pays what its key has spent."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import msgpack
import pytest

from node.storage.spend_file import SpendFile
from protocol.crypto.node_key import NodeKey
from tests.box.box import Box, own_rows
from tests.box.ledgers import charges
from tests.box.test_privacy import participants, to_one_model
from tests.fixtures.make_folder import SETTINGS
from tests.run_folders import fact, rows

FIXTURES = Path(__file__).parents[1] / "fixtures"
V1, V2, V4 = (FIXTURES / f"folder_v{version}" for version in (1, 2, 4))


def taken_over(make_box, older: Path) -> Box:
    """Returns a box whose nodes have the folders of an older version."""
    box: Box = make_box(3, 3, *SETTINGS, usual=(), rows=own_rows)
    for node in box.nodes:
        shutil.rmtree(node.folder)
        shutil.copytree(older / str(node.number), node.folder)
        for secret in node.folder.glob("node.key*"):
            secret.chmod(0o600)
        node.disk.restore(node.disk.written())
    return box


def key_in(folder: Path) -> bytes:
    return NodeKey(bytes.fromhex((folder / "node.key").read_text())).public


@pytest.mark.parametrize("older", [V1, V2, V4], ids=["1", "2", "4"])
def test_a_swarm_of_an_older_version_is_taken_over_and_goes_on(make_box, older: Path) -> None:
    """Same keys, same base, all spending remembered; the trained update is offered, once."""
    box = taken_over(make_box, older)
    first = box.nodes[0].folder
    base = msgpack.unpackb(fact(first, "base"))
    assert (base[0], fact(first, "key")) == (2, None if older == V1 else key_in(first))
    assert fact(first, "fresh") is not None
    before = [charges(node.folder) for node in box.nodes]
    box.start_all()
    to_one_model(box)
    for node, paid in zip(box.nodes, before, strict=True):
        out, lines, after = node.folder, node.history, charges(node.folder)
        assert node.has_said("resumes after round 2")
        assert node.has_said(f"node: {key_in(older / str(node.number)).hex()}")
        assert participants(box, node.number) == [3, 3, 3]
        assert [(line["round"], line["outcome"]) for line in lines[2:]] == [(3, "aggregated")]
        assert lines[1]["base_digest"] == base[1].hex()
        assert [one.sid for one in after[:2]] == [one.sid for one in paid]
        assert [(one.round, len(one.events)) for one in after[2:]] == [(3, 2 if node.number == 0 else 1)]
        assert (lines[2]["own"], node.summary["generation"]) == (3, 3)
        assert lines[2]["epsilon"] == pytest.approx(after[2].epsilon, abs=1e-5)
        assert rows(out, "pragma user_version") == [(5,)]
        assert msgpack.unpackb(fact(out, "base"))[4] == 3, "the base that came of it is an anchor"
        assert [path.name for path in out.rglob(".*")] == []
        file = SpendFile(out / "node.key", key_in(out), "digits")
        assert set(file.charges()) == {one.sid for one in after}
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_node_that_missed_the_last_sum_before_the_upgrade_takes_it_afterwards(make_box):
    """The upgrade drops the links that would prove the model, so it takes the word of the majority."""
    box = taken_over(make_box, V4)
    late = box.nodes[2]
    with sqlite3.connect(late.folder / "state.db") as database:
        for name in ("base", "base_file"):
            earlier = name.replace("base_file", "previous_file").replace("base", "previous")
            database.execute(
                "update fact set value = (select value from fact where name = ?) where name = ?",
                (earlier, name),
            )
    database.close()
    late.disk.restore(late.disk.written())
    box.start_all()
    to_one_model(box)
    assert late.has_said("resumes after round 1")
    assert late.has_said("on the word of")
    for node in box.nodes:
        assert (node.status, node.history[-1]["participants"]) == (0, 3)


def test_a_folder_that_was_put_back_is_charged_what_was_spent_since(make_box, tmp_path: Path) -> None:
    """The key is elsewhere, so only the folder is older."""
    box = taken_over(make_box, V1)
    node, key = box.nodes[0], tmp_path / "key"
    shutil.move(node.folder / "node.key", key)
    older = shutil.copytree(node.folder, tmp_path / "copy")
    node.start("--key", str(key))
    for other in box.nodes[1:]:
        other.start()
    to_one_model(box)
    paid = charges(node.folder)
    assert len(paid) == len(charges(older)) + 1
    node.start("--key", str(key), "--out", str(older))
    box.run(until=lambda: node.has_said("spent before: 1 offer that"))
    box.run_for(1.0)
    assert [(one.sid, one.events) for one in charges(older)] == [(one.sid, one.events) for one in paid]
