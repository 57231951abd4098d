import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.catalogue import BENCHMARKS


def test_help_and_list_name_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    helped = capsys.readouterr().out
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    names = (
        "additive aggregators allocation audit beside calibration clients defaults floor gradients jobs"
        " memory messages noise page persons rates relay rounds secagg shares siege spoilers starting steps"
        " targets tls training walk"
    )
    assert set(BENCHMARKS) == {*names.split()}
    assert all(name in helped and name in listed for name in BENCHMARKS)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "NAME"),
        ("speed", "speed"),
        ("shares --fast", "--fast"),
        ("shares --repeats few", "few"),
        ("shares --repeats 0", "--repeats 0: allowed are 1"),
        ("aggregators --repeats 0", "--repeats 0: allowed are 1 and more"),
        ("calibration --repeats 0", "--repeats 0: allowed are 1 and more"),
        ("noise --repeats 0", "--repeats 0: allowed are 1"),
        ("walk --seeds 0", "--seeds 0: allowed are 1 and more"),
        ("walk --epsilon 0", "--epsilon 0: allowed are 0.01 to 100"),
        ("gradients --turns 0", "--turns 0: allowed are 1 and more"),
        ("gradients --batch 0", "--batch 0: allowed are 1 and more"),
        ("gradients --opacus nowhere", "there is no "),
        ("allocation --cases 0", "--cases 0: allowed are 1 and more"),
        ("rates --cases digits,letters", "--cases letters: allowed are digits, adult, adult-few, mnist-mlp"),
        ("defaults --sets wine,beer", "--sets beer: allowed are digits, breast-cancer, diabetes, wine,"),
        ("targets --splits 0", "--splits 0: allowed are 1 and more"),
        ("defaults --splits 0", "--splits 0: allowed are 1 and more"),
        ("defaults --factors 2", "--factors 2 has no effect without --choose; leave it out"),
        (
            "defaults --choose --factors 0",
            "--factors 0: allowed are numbers above 0, with commas between them",
        ),
        (
            "defaults --choose --factors x",
            "--factors x: allowed are numbers above 0, with commas between them",
        ),
        ("defaults --jobs 0", "--jobs 0: allowed are 1 and more"),
        ("rates --seeds 0", "--seeds 0: allowed are 1 and more"),
        ("rates --epsilons 1,0", "--epsilons 1,0: allowed are numbers above 0, with commas"),
        ("rates --factors some", "--factors some: allowed are numbers above 0"),
        ("relay --repeats 0", "--repeats 0: allowed are 1 and more"),
        ("rounds --peers 2", "--peers 2: allowed are 3 to 64"),
        ("rounds --rounds 1", "--rounds 1: allowed are 2"),
        ("messages --peers 3", "--peers 3: allowed are 4 to 64"),
        ("messages --rounds 1", "--rounds 1: allowed are 2"),
        ("messages --repeats 0", "--repeats 0: allowed are 1"),
        ("page --peers 0", "--peers 0: allowed are 1 and more"),
        ("page --history 0", "--history 0: allowed are 1 and more"),
        ("page --nodes 2", "--nodes 2: allowed are 3 to 64"),
        ("memory --n 2", "--n 2: allowed are 3 to 64"),
        ("clients --repeats 0", "--repeats 0: allowed are 1"),
        ("clients --block 0", "--block 0: allowed are 1"),
        ("clients --momentum 1", "--momentum 1.0: allowed are 0 to below 1"),
        ("memory --kinds seed,ropes", "--kinds seed,ropes: allowed are seed, ring, float"),
        ("secagg --n 2,4", "--n 2,4: allowed are 3 to 64"),
        ("secagg --n 65", "--n 65: allowed are 3 to 64"),
        ("secagg --d many", "--d many: allowed are 1 to 1000000000"),
        ("secagg --d 0", "--d 0: allowed are 1 to"),
        ("secagg --d ,", "--d ,: allowed are 1 to"),
        ("secagg --rounds 0", "--rounds 0: allowed are 1"),
        ("siege --turns 0", "--turn 30 --turns 0: allowed are 1"),
        ("starting --repeats 0", "--repeats 0: allowed are 1"),
        ("steps --peers 2", "--peers 2: allowed are 3 to 64"),
        ("steps --turns 0", "--turns 0: allowed are 1 and more"),
        ("tls --rounds 0", "--rounds 0: allowed are 1"),
        ("training --turns 0", "--turns 0: allowed are 1 and more"),
        ("training --data-dir nowhere", "data set mnist: nowhere"),
        ("secagg --protocols additive", "--protocols additive: allowed are additive-ring, additive-seed,"),
        ("secagg --flwr-python nowhere/python", "--flwr-python nowhere/python: there is no such file"),
        ("shares --json nowhere/figures.json", "there is no such folder"),
        ("audit --only nothing", "--only nothing: allowed is a part of a name: gaussian; "),
    ],
)
def test_a_bad_command_line_is_one_line_and_status_2(line, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out in ("", *(f"benchmark {one.name}: {one.summary}\n" for one in BENCHMARKS.values()))
    assert list(tmp_path.iterdir()) == []


def test_quick_shares_stay_within_their_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["shares", "--quick", "--repeats", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    judged = [figure for figure in figures if figure["holds"] is not None]
    assert {figure["case"] for figure in judged} == {
        f"{kind} n={n}" for kind in ("seed", "ring", "float") for n in (3, 10, 30)
    }
    assert all(figure["holds"] for figure in judged)
    speeds = [figure["median"] for figure in figures if figure["unit"] == "GB/s"]
    assert speeds
    assert min(speeds) > 0
    assert all(figure["machine"] and figure["versions"]["numpy"] for figure in figures)
    assert "GB/s" in capsys.readouterr().out
