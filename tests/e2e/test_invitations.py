"""From files of their own to one model: an inviter and two joiners, by codes over a relay, no file edited.

Behind firewalls and proxies: test_reach.py.
"""

from __future__ import annotations

import json
import signal
import tomllib
from pathlib import Path

import pytest

from node.init import __main__ as init
from node.storage.swarm_file import read_swarm
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.own_data import ward
from tests.run_folders import summary

NAMES = ("Ward A", "Ward B", "Ward C", "Ward D")
TWO_ROUNDS = ("--model", "linear", "--rounds", "2")


class Wards:
    """Three owners, each with rows in a folder of its own, and a relay. The first one has the task."""

    def __init__(self, nursery: Nursery, folder: Path, *asked: str) -> None:
        self._nursery = nursery
        self.folders = [folder / name for name in "abcd"]
        for number, own in enumerate(self.folders):
            own.mkdir()
            (own / "own.csv").write_text(ward(200 + 50 * number, number))
        usual = ("--target", "outcome", "--privacy", "none", "--out", str(self.folders[0] / "ward.toml"))
        assert init.main(["--data", str(self.folders[0] / "own.csv"), *usual, *asked]) == 0
        self.endpoint, self.key = free_endpoint(), folder / "relay.key"
        relay = nursery.tracker("--relay", "--listen", self.endpoint, "--key", str(self.key))
        relay.line("to invite, give people this address")

    def invite(self) -> Process:
        word = self.key.with_name(f"{self.key.name}.word").read_text().strip()
        relay = f"{self.endpoint}#{word}"
        usual = ("--data", "own.csv", "--me", NAMES[0], "--relay", relay, *NAMES[1:3], "--yes")
        return self._command(0, "node.invite", "ward.toml", *usual)

    def join(self, number: int, inviter: Process, *more: str) -> Process:
        code = inviter.line(f"  {NAMES[number]}   murmuration join").split()[-1]
        return self._command(number, "node.join", code, "--data", "own.csv", "--yes", *more)

    def invite_later(self, number: int) -> Process:
        return self._command(number, "node.invite", "runs/ward", NAMES[3], "--yes")

    def start(self, number: int) -> Process:
        return self._command(number, "node.start", "runs/ward", "--yes")

    def _command(self, number: int, module: str, *argv: str) -> Process:
        return self._nursery.command(module, argv, self.folders[number])

    def run(self, number: int) -> Path:
        return self.folders[number] / "runs" / "ward"


@pytest.fixture
def wards(nursery: Nursery, tmp_path: Path) -> Wards:
    return Wards(nursery, tmp_path, *TWO_ROUNDS)


def ended(wards: Wards, *processes: Process) -> None:
    """Waits until all have learned, and sees that they have one model and one list."""
    for process in processes:
        assert process.status() == 0, process.told()
    models = {summary(wards.run(number))["base_digest"] for number in range(3)}
    assert len(models) == 1
    lists = [tomllib.loads((wards.run(number) / "swarm.toml").read_text()) for number in range(3)]
    assert len({json.dumps({**each, "own": None}) for each in lists}) == 1
    assert {member["name"] for member in lists[0]["members"]} == {*NAMES[:3]}


def test_three_owners_come_from_their_files_to_one_additive_model_and_one_of_them_invites_a_fourth(
    nursery: Nursery, tmp_path: Path
) -> None:
    wards = Wards(nursery, tmp_path)
    task = wards.folders[0] / "ward.toml"
    task.write_text(task.read_text().replace("[train]", "args = { trees = 0 }\n\n[train]", 1))  # curves alone
    inviter = wards.invite()
    joiners = [wards.join(number, inviter) for number in (1, 2)]
    assert "invites you, Ward B, with: Ward C" in joiners[0].line("Ward A invites you")
    inviter.line("the list is closed: ward-")
    inviter.line("(curves): 3 members")
    ended(wards, inviter, *joiners)
    sponsor = wards.invite_later(1)
    late = wards.join(3, sponsor)
    late.line("Ward B invites you, Ward D, with: Ward A, Ward C")
    late.line("links: by the relay")
    late.line("may join")  # its node runs
    late.send(signal.SIGKILL)
    sponsor.line('murmuration members runs/ward --accept "Ward D"')
    assert sponsor.status() == 0, sponsor.told()
    assert all("Ward D" in read_swarm(wards.run(number)).names.values() for number in (1, 3))


def test_a_member_that_was_killed_gets_the_list_from_an_inviter_that_learns_already(wards: Wards) -> None:
    inviter = wards.invite()
    second = wards.join(2, inviter)
    second.line("waiting until the inviter closes the list")
    second.kill()
    first = wards.join(1, inviter)
    inviter.line("the list is closed")
    inviter.line("Ward C")
    second = wards.start(2)
    second.line("Learn with these, and with nobody else?")
    ended(wards, inviter, first, second)


@pytest.mark.sampled
def test_data_are_mended_the_inviter_is_interrupted_and_all_agree_on_scales_before_they_learn(
    nursery: Nursery, tmp_path: Path
) -> None:
    """The codes stay good: after data that do not fit, and after an inviter that starts again."""
    wards = Wards(nursery, tmp_path, *TWO_ROUNDS, "--agree")
    inviter = wards.invite()
    path = wards.folders[1] / "own.csv"
    whole = path.read_text()
    path.write_text(whole.replace("age", "alter", 1))
    refused = wards.join(1, inviter)
    assert refused.status() == 2, refused.told()
    assert "the code is still good" in "\n".join(refused.err.all())
    inviter.line("Ward B: its data do not fit yet")
    path.write_text(whole)
    first = wards.join(1, inviter)
    first.line("waiting until the inviter closes the list")
    code = inviter.line(f"  {NAMES[2]}   murmuration join").split()[-1]
    inviter.send(signal.SIGINT)
    assert inviter.status() == 130, inviter.told()
    inviter = wards.start(0)
    assert inviter.line(f"  {NAMES[2]}   murmuration join").split()[-1] == code
    second = wards.join(2, inviter)
    inviter.line("agreement: 3 peers agreed")
    ended(wards, inviter, first, second)
