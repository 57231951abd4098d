"""The folder of a run that was killed tells how far it came."""

from __future__ import annotations

import json

from node.observe.run_folder import SILENT_S, RunFolder
from node.report.__main__ import main as report
from node.storage.folder_lock import VIEW


def test_a_killed_run_is_shown_as_far_as_it_came(make_box, capsys) -> None:
    box = make_box(3, 100)
    node = box.nodes[0]
    node.when_it_says(node.kill, "round 3/")
    box.start_all()
    box.run(lambda: node.is_over)

    at = json.loads((node.folder / VIEW).read_text())["at"]
    seen = RunFolder(node.folder, lambda: at + SILENT_S + 1).read()
    assert (seen.ended, seen.silent_since) == (False, at)
    assert [line.round for line in seen.history] == [1, 2, 3]
    assert seen.round == 3
    assert seen.about["task"].startswith("digits")
    assert report([str(node.folder)]) == 0
    assert (node.folder / "report.html").stat().st_size < 1_500_000
    assert "report: " in capsys.readouterr().out
