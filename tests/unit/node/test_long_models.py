"""A model that is too long for its peers is refused before anything is sent."""

from __future__ import annotations

from node.__main__ import main

TASK = """
[task]
name = "ward"
[model]
class = "node.models:Linear"
args = { inputs = 2, outputs = 12_000_000 }
"""


def test_a_model_that_is_too_long_for_so_many_peers_is_one_line(tmp_path, one_line):
    """Others could not continue after one fell silent. --peers names as many as a group can have members."""
    out, task, rows = tmp_path / "out", tmp_path / "t.toml", tmp_path / "a.csv"
    task.write_text(TASK)
    rows.write_text("x,y,z\n" + "1,2,0\n2,1,1\n" * 5)
    peers = ",".join(f"127.0.0.1:{port}" for port in range(1, 65))
    where = ("--listen", "127.0.0.1:0", "--data", str(rows), "--out", str(out))
    line = one_line(main, ["--peers", peers, "--task", str(task), *where])
    assert "36000000 parameters are too many for masked sums of 64 peers; allowed: at most 33554431" in line
    assert [path.name for path in out.iterdir()] == ["node.key"]
