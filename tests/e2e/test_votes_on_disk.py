"""No release leaves without its vote, and no vote without its charge: a process is killed at every step."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.e2e.dying_start import arm
from tests.votes import charged, is_sound, votes_and_charges

MOST_STEPS = 200


def killed_at(number: int, folder: Path, does: Callable[[Path], None]) -> bool:
    """Does it in a process that is killed before this step; returns False if it reached its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            arm(number, folder)
            does(folder)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -signal.SIGKILL), ended
    return ended != 0


def test_no_release_without_its_vote_and_no_vote_without_its_charge_wherever_their_storing_is_killed(
    tmp_path: Path,
) -> None:
    """The next step's charge is stored with the vote: a kill leaves at most a charge without a release."""
    seen = set()
    for number in range(1, MOST_STEPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        charged(folder).close()
        was_killed = killed_at(number, folder, votes_and_charges)
        seen.add(is_sound(folder))
        if not was_killed:
            break
    assert seen == {(False, False, False), (False, True, False), (True, True, False), (True, True, True)}
    assert number < MOST_STEPS - 1
