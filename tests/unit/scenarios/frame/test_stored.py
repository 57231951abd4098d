"""Stored results, judged again: `scenarios judge`, and that docs/results say what the claims of today say."""

import json
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.system.errors import ConfigError
from scenarios.__main__ import main
from scenarios.catalogue import SCENARIOS
from scenarios.frame.folder import write_json
from scenarios.frame.packed import pack
from scenarios.frame.stored import judged_again, read_result, write_packed

RESULTS = Path(__file__).parents[4] / "docs" / "results"
SWEEPS = sorted(name for name in SCENARIOS if (RESULTS / f"{name}.json").exists())
MOST_BYTES = 2_500_000
SEEDS = [
    {"seed": 3, "figures": [0.1, 0.3], "epsilon": None, "unit": "record", "measured": True, "bytes": 432},
    {"seed": 4, "figures": [], "unit": None, "rows": [7, 9], "epsilon": 1.25},
]
MADE = {
    "scenario": "made",
    "configuration": {"seed": 3, "arms": {"one": {"train": {"rounds": 2}}, "two": {}}},
    "arms": {
        "one": {"factors": {"clip": 0.5}, "figure": 0.3, "seeds": SEEDS},
        "two": {"factors": {}, "figure": None, "seeds": SEEDS[:1]},
    },
    "claims": [{"name": "It learns", "holds": True, "numbers": {"points": 20}}],
}
CHANGED = json.loads(json.dumps(MADE).replace("0.3]", "0.4]"))


@pytest.mark.parametrize("name", SWEEPS)
def test_published_claims_are_those_of_today(name: str) -> None:
    """If this fails: `python -m scenarios judge docs/results/NAME.json --write`, then read what changed."""
    path = RESULTS / f"{name}.json"
    result = read_result(path)
    again, _ = judged_again(SCENARIOS[name].load(), result)
    verdicts = [(claim["name"], claim["kind"], claim["holds"]) for claim in again["claims"]]
    assert [(claim["name"], claim["kind"], claim["holds"]) for claim in result["claims"]] == verdicts
    assert result["headline"] == again["headline"]


def test_published_results_are_small() -> None:
    """If this fails: `python -m website.scenario_tables FILE` keeps the result of a study packed."""
    assert sum(path.stat().st_size for path in RESULTS.iterdir()) < MOST_BYTES


def test_a_packed_result_is_read_as_it_was_and_its_seeds_are_not_written_anew(tmp_path: Path) -> None:
    path, table = tmp_path / "made.json", tmp_path / "made.parquet"
    write_packed(path, MADE)
    assert json.dumps(read_result(path)) == json.dumps(MADE)
    assert "figures" not in path.read_text()
    text = json.loads(path.read_text())
    assert text["claims"] == MADE["claims"]
    assert text["arms"]["one"] == {"factors": {"clip": 0.5}, "figure": 0.3}
    otherwise_written = pq.read_table(table)
    pq.write_table(otherwise_written, table, compression="gzip")
    kept = table.read_bytes()
    write_packed(path, {**MADE, "claims": []})
    assert table.read_bytes() == kept
    assert read_result(path) == {**MADE, "claims": []}
    write_packed(path, CHANGED)
    assert read_result(path) == CHANGED


def other_columns() -> bytes:
    file = pa.BufferOutputStream()
    pq.write_table(pa.table({"arm": ["one"], "names": [["seed"]]}), file)
    return bytes(file.getvalue())


@pytest.mark.parametrize(
    ("spoilt", "resealed"),
    [
        (lambda data: pack(CHANGED)[1], False),
        (lambda data: b"", True),
        (lambda data: data[: len(data) // 2], True),
        (lambda data: other_columns(), True),
        (None, False),
    ],
)
def test_seeds_that_are_missing_or_others_are_one_line(tmp_path, one_line, spoilt, resealed) -> None:
    path, table = tmp_path / "made.json", tmp_path / "made.parquet"
    write_packed(path, MADE)
    right = sha256(table.read_bytes()).hexdigest()
    if spoilt is None:
        table.unlink()
    else:
        table.write_bytes(spoilt(table.read_bytes()))
    if resealed:
        path.write_text(path.read_text().replace(right, sha256(table.read_bytes()).hexdigest()))
    line = one_line(main, ["compare", str(path), str(path)])
    assert (
        line == f"scenarios: {table} does not hold the seeds of made.json; restore the two files of one run"
    )


@pytest.mark.parametrize("write", [write_json, write_packed])
def test_judging_again_writes_what_a_claim_says_now(tmp_path: Path, capsys, write) -> None:
    """A claim that was tampered with is put right; figures stay, and where they are."""
    result = read_result(RESULTS / "label-dp.json")
    wrong = {**result, "claims": [{**claim, "holds": False} for claim in result["claims"]]}
    path = tmp_path / "result.json"
    write(path, wrong)
    assert main(["judge", str(path)]) == 0
    assert read_result(path) == wrong, "it writes only if asked"
    assert main(["judge", str(path), "--write"]) == 0
    said = capsys.readouterr().out
    assert "15 of 16 hold, 1 of 1 identities hold." in said
    again = read_result(path)
    assert again["arms"] == result["arms"]
    assert [claim["holds"] for claim in again["claims"]] == [claim["holds"] for claim in result["claims"]]
    assert ("predictions sha256" in path.read_text()) == (write is write_json)


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
