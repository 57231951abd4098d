"""The benchmark of secure sums with real processes, in small: what it measures."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main

FIELDS = {"protocol", "n", "d", "wall_s", "cpu_s", "bytes_sent", "peak_bytes", "max_error"}


def test_real_peers_sum_up_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cells.json"
    line = f"secagg --n 4 --d 2000 --rounds 1 --json {file}"
    assert main(line.split()) == 0
    ring, seed, masked, short, gloo = json.loads(file.read_text())
    for cell in (ring, seed, masked, short, gloo):
        assert set(cell) > FIELDS
        assert (cell["n"], cell["d"], cell["rounds"]) == (4, 2000, 1)
        assert min(cell[name] for name in FIELDS - {"protocol", "peak_bytes"}) > 0
        assert cell["max_error_of_bound"] < (1e-3 if cell is short else 1e-6)
        assert cell["wall_s"] >= cell["aggregate_s"] > 0
    words = 4 * 2000 * 3  # to three others: the shares are words, or seeds; the sums are always words
    assert ring["bytes_by_phase"]["shares"] > words > 10 * seed["bytes_by_phase"]["shares"]
    assert min(cell["bytes_by_phase"]["sums"] for cell in (ring, seed, masked)) > words
    assert short["bytes_by_phase"]["sums"] < 0.8 * masked["bytes_by_phase"]["sums"]
    assert masked["bytes_by_phase"]["shares"] > seed["bytes_by_phase"]["shares"]
    assert "additive-seed    4       2000" in capsys.readouterr().out


def test_rounds_with_and_without_tls_by_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tls.json"
    assert main(["tls", "--quick", "--rounds", "1", "--json", str(file)]) == 0
    found = {one["figure"]: one for one in json.loads(file.read_text())}
    for name, unit, samples in (("wall", "s", 1), ("CPU a peer", "s", 4), ("frames a peer", "bytes", 4)):
        for side in ("without", "under TLS"):
            one = found[f"{side}: {name}"]
            assert (one["case"], one["unit"], one["samples"]) == ("masked n=4 d=20000", unit, samples)
            assert one["max"] >= one["median"] >= one["min"] > 0
    words = 4 * 20_000
    assert min(found[f"{side}: frames a peer"]["min"] for side in ("without", "under TLS")) > words
    assert found["CPU, under TLS / without"]["samples"] == 1
    assert "wall, under TLS / without" in capsys.readouterr().out
