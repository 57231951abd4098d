"""The noise benchmark runs, compares with the others in the same run, and stays within its memory."""

import json

from benchmarks.__main__ import main


def test_quick_noise_gives_speeds_ratios_and_memory(tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main(["noise", "--quick", "--repeats", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    units = [figure["unit"] for figure in figures]
    assert units == ["GB/s"] * 4 + ["ns/element"] * 4 + ["x"] * 4 + ["x 4d"]
    speed, ratio, either = figures[0], figures[8], figures[-2]
    assert (speed["at_least"], ratio["at_most"], either["at_least"]) == (0.5, 1.0, 1.0)
    assert either["holds"] == (speed["holds"] or ratio["holds"])
    assert min(figure["median"] for figure in figures) > 0
    assert figures[-1]["holds"]
    assert "torch.randn" in capsys.readouterr().out
