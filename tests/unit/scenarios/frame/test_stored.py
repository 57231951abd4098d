"""Stored results, judged again: `scenarios judge`, and that docs/results say what the claims of today say."""

import json
from pathlib import Path

import pytest

from node.errors import ConfigError
from scenarios.__main__ import main
from scenarios.catalogue import SCENARIOS
from scenarios.frame.stored import judged_again, read_result

RESULTS = Path(__file__).parents[4] / "docs" / "results"
SWEEPS = sorted(name for name in SCENARIOS if (RESULTS / f"{name}.json").exists())


@pytest.mark.parametrize("name", SWEEPS)
def test_published_claims_are_those_of_today(name: str) -> None:
    """If this fails: `python -m scenarios judge docs/results/NAME.json --write`, then read what changed."""
    path = RESULTS / f"{name}.json"
    result = read_result(path)
    again, _ = judged_again(SCENARIOS[name].load(), result)
    verdicts = [(claim["name"], claim["kind"], claim["holds"]) for claim in again["claims"]]
    assert [(claim["name"], claim["kind"], claim["holds"]) for claim in result["claims"]] == verdicts
    assert result["headline"] == again["headline"]


def test_judging_again_writes_what_a_claim_says_now(tmp_path: Path, capsys) -> None:
    """A claim that was tampered with is put right; figures stay."""
    result = read_result(RESULTS / "label-dp.json")
    wrong = {**result, "claims": [{**claim, "holds": False} for claim in result["claims"]]}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(wrong), "utf-8")
    assert main(["judge", str(path)]) == 0
    assert read_result(path) == wrong, "it writes only if asked"
    assert main(["judge", str(path), "--write"]) == 0
    said = capsys.readouterr().out
    assert "15 of 16 hold, 1 of 1 identities hold." in said
    again = read_result(path)
    assert again["arms"] == result["arms"]
    assert [claim["holds"] for claim in again["claims"]] == [claim["holds"] for claim in result["claims"]]


NO_RESULTS = [
    "",
    "[]",
    "{}",
    '{"scenario": "nbafl"}',
    '{"scenario": 3, "arms": {}}',
    '{"scenario": "swarm", "arms": {}}',
]


@pytest.mark.parametrize("text", NO_RESULTS)
def test_what_is_no_result_of_a_sweep_is_refused_in_one_line(tmp_path, text, capsys):
    path = tmp_path / "result.json"
    path.write_text(text)
    assert main(["judge", str(path)]) == 2
    told = f"{path} is no result.json of a scenario"
    if "swarm" in text:
        told = "scenario swarm cannot be judged again from its result"
    assert told in capsys.readouterr().err


def test_a_result_that_lacks_what_this_version_reads_is_refused() -> None:
    result = read_result(RESULTS / "label-dp.json")
    arms = {arm: {**figures, "seeds": [{"seed": 0}]} for arm, figures in result["arms"].items()}
    with pytest.raises(ConfigError, match="lacks what this version reads"):
        judged_again(SCENARIOS["label-dp"].load(), {**result, "arms": arms})
