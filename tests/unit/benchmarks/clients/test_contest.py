"""The benchmark of clients runs: both forms, their ratio, and the memory of a process of its own."""

import json
import os
from dataclasses import replace
from multiprocessing import Pipe

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.clients import contest


def test_quick_clients_gives_rates_a_ratio_and_memory_in_chosen_blocks(tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main(["clients", "--quick", "--block", "3", "--momentum", "0.9", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert {figure["unit"] for figure in figures} == {"clients/s", "x", "bytes"}
    assert min(figure["median"] for figure in figures) > 0
    ratio, memory = figures[-2:]
    assert ratio["at_least"] == 2.5
    assert memory["holds"]
    said = capsys.readouterr().out
    assert "one by one" in said
    assert "at most 3 at a time" in said


def test_the_measured_process_tells_its_peak() -> None:
    results, told = Pipe(duplex=False)
    contest.measure(replace(contest.DIGITS, clients=20), told)
    assert results.recv() > 0
    for end in (results, told):
        end.close()


@pytest.mark.skipif(not os.environ.get("MURMURATION_DATA"), reason="MURMURATION_DATA is not set")
def test_real_rows_have_the_shape_of_random_ones() -> None:
    real, made = contest._mnist_rows(contest.QUICK), contest.QUICK.random_rows()
    for values, expected in zip(real, made, strict=True):
        assert values.shape == expected.shape
        assert values.dtype == expected.dtype
    assert np.ptp(real[0]) <= 1
