"""The gradients benchmark times a plain step, ours and vmap for each model, and names its targets."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main


def test_a_quick_run_gives_each_model_and_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["gradients", "--quick", "--batch", "16", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert [(row["model"], row["kind"]) for row in found] == [
        (model, kind)
        for model in ("mlp", "cnn", "cnn-groupnorm", "attention")
        for kind in ("plain", "ours", "vmap")
    ]
    assert all(row["ms"] > 0 and row["batch"] == 16 and row["threads"] == 1 for row in found)
    assert {"torch", "numpy"} <= set(found[0]["versions"])
    assert [row["at_most_times_plain"] for row in found if row["kind"] == "ours"] == [4.0, 2.2, 4.0, 2.5]
    assert "x plain" in capsys.readouterr().out


def test_an_environment_that_gives_no_answer_is_named(tmp_path, one_line):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/bin/true")
    assert "gave no answer; is opacus installed there?" in one_line(
        main, ["gradients", "--quick", "--batch", "16", "--opacus", str(tmp_path)], status=1
    )
