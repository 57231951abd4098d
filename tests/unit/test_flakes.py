"""`make flakes` counts what failed in which run, and goes on where it stopped."""

import json
import subprocess
import sys

from tests import flakes
from tests.patience import ENOUGH_S
from tests.pauses import pauses

UNTIL_PAUSED = """
import time
before = time.monotonic()
while (now := time.monotonic()) - before < 0.25:
    before = now
"""


def test_each_run_is_counted_and_a_second_start_goes_on(tmp_path, capsys):
    planted, file = tmp_path / "test_planted.py", tmp_path / "flakes.json"
    planted.write_text(
        "import pytest\n\ndef test_good():\n    pass\n\ndef test_bad():\n    assert False\n\n"
        "@pytest.mark.skip\ndef test_skipped():\n    pass\n"
    )
    own = ("--runs", "2", "--loops", "1", "--process-runs", "0", "--pause-runs", "0", "--json", str(file))
    words = (*own, "--", str(planted), "-p", "no:cacheprovider")
    assert flakes.main(words) == 1
    assert flakes.main(words) == 1
    runs = json.loads(file.read_text())["runs"]
    assert [(run["passed"], run["skipped"], run["failed"]) for run in runs] == [
        *(2 * [(1, 1, ["test_planted.test_bad"])])
    ]
    last, before = capsys.readouterr().out.splitlines()[:-3:-1]
    assert (before, last) == ("  2 of 2 test_planted.test_bad", "2 runs, 0 without a failure")


def test_processes_below_stand_still_and_go_on():
    with pauses(1):
        subprocess.run([sys.executable, "-c", UNTIL_PAUSED], check=True, timeout=ENOUGH_S)
