"""From files to a model by invitation, where sites let nothing in and a relay only carries."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from node.storage.swarm_file import read_swarm
from tests.e2e import proxy
from tests.e2e.invited import DATA, PASSWORD, RELAY, Owner, Place, cut_in, slowed
from tests.e2e.namespaces import HTTPS_ONLY, OPEN, Conditions, Site, address, exit_at
from tests.e2e.processes import Nursery
from tests.run_folders import history, summary

PROXY = 3
BY_PROXY = Site(frozenset((exit_at(PROXY, proxy.PORT),)))
WARDS = (OPEN, HTTPS_ONLY, HTTPS_ONLY, OPEN, BY_PROXY)


def all_end(owners: Sequence[Owner]) -> None:
    """Waits until all have ended well, with one model and one list."""
    for owner in owners:
        assert owner.process.status() == 0, owner.process.told()
    assert len({summary(owner.run)["base_digest"] for owner in owners}) == 1
    assert len({read_swarm(owner.run).roster.digest for owner in owners}) == 1


@pytest.mark.sampled("False")
@pytest.mark.parametrize("intercepts", [False, True])
def test_two_wards_behind_firewalls_and_one_behind_a_proxy_come_from_files_to_a_model(
    make_wire, nursery: Nursery, tmp_path: Path, intercepts: bool
) -> None:
    place = Place(nursery, make_wire(WARDS, 7, Conditions()), tmp_path)
    told = place.start_proxy(PROXY, "--password", PASSWORD, *(["--intercept"] if intercepts else []))
    owners = a, b, c = place.owner(1, "Ward A"), place.owner(2, "Ward B"), place.owner(4, "Ward C", PROXY)
    place.propose(a, "--peers", "3", "--rounds", "2")
    place.invite(a, (b, c))
    for owner in owners:
        owner.process.line("round 1/2: aggregated with 3 peers")
    all_end(owners)
    assert told.line("200 OK") == f"200 OK {address(RELAY)}:443"
    assert {path.name for path in c.folder.iterdir()} == {DATA, "runs"}


SITES, ROUNDS = 8, 20
OUTAGE_S = 18.0
"""Six minutes, scaled by 1/20 as rounds are."""
FAILED = 4
"""Sums under way that may fail: one in each outage of a line, one at the relay's end, and one more."""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("privacy", "epochs"),
    [(("--epsilon", "4"), 1), (("--privacy", "none", "--model", "linear"), 100)],
    ids=["steps", "rounds"],
)
def test_eight_sites_one_of_them_slow_through_two_outages_and_a_relay_that_is_killed(
    make_wire, nursery: Nursery, tmp_path: Path, privacy: tuple[str, ...], epochs: int
) -> None:
    """A deployment at one twentieth of its times. Nobody has to do anything, and who is away spends no round.

    With noise on all steps a round has ten sums, and each step's training is short. Without noise a round's
    training takes half a second, so that the second outage begins in it.
    """
    wire = make_wire((OPEN, *[HTTPS_ONLY] * SITES), 7, Conditions(0.01, 0.005))
    place = Place(nursery, wire, tmp_path)
    owners = [place.owner(number, f"Site {number}") for number in range(1, SITES + 1)]
    inviter, slow = owners[0], owners[-1]
    over = threading.Event()
    task = place.propose(inviter, "--peers", str(SITES), "--rounds", str(ROUNDS), *privacy)
    task.write_text(re.sub(r"epochs = \d+", f"epochs = {epochs}", task.read_text()))
    place.invite(inviter, owners[1:])
    inviter.process.line(f"round 1/{ROUNDS}:")
    with slowed(slow.process, 20):
        for ended, cut, phases in ((4, 1, ("shares", "sums")), (10, 2, ("idle",))):
            inviter.process.line(f"round {ended}/{ROUNDS}:")
            with cut_in(wire, owners[cut], phases) as phase:
                print(f"the line of {owners[cut].name} is cut while its node reports: {phase}")
                over.wait(OUTAGE_S)
        place.relay.kill()
        place.start_relay()
        inviter.process.line(f"round {ROUNDS * 9 // 10}/{ROUNDS}:")
    all_end(owners)
    for owner in owners:
        told = history(owner.run)
        assert all(line["alone"] == 0 and line["reason"] != "group-timeout" for line in told), owner.name
        assert sum(line["reason"] is not None for line in told) <= FAILED, owner.name
        print(owner.name, len(told), [line["participants"] for line in told])


@pytest.mark.soak
def test_five_sites_far_from_their_relay_make_rounds_over_lines_that_lose_packets(
    make_wire, nursery: Nursery, tmp_path: Path
) -> None:
    """80 ms to the relay and back, 3 % lost each way; docs/results says how long a round takes."""
    place = Place(nursery, make_wire((OPEN, *[HTTPS_ONLY] * 5), 7, Conditions(0.04, 0.0, 0.03)), tmp_path)
    owners = [place.owner(number, f"Site {number}") for number in range(1, 6)]
    task = place.propose(owners[0], "--peers", "5", "--rounds", "10", "--privacy", "none", "--model", "mlp")
    wider, count = re.subn(r"sizes = \[6, \d+, 2\]", "sizes = [6, 5500, 2]", task.read_text())
    assert count == 1, "a model of 49,502 parameters"
    task.write_text(wider)
    place.invite(owners[0], owners[1:])
    all_end(owners)
    aggregated = [[line for line in history(owner.run) if line["reason"] is None] for owner in owners]
    assert all(len(lines) >= 8 for lines in aggregated)
    for lines in zip(*aggregated, strict=False):
        took_s = [line["train_s"] + line["aggregate_s"] for line in lines]
        last = lines[took_s.index(min(took_s))]  # whoever came last waited for nobody's start
        print(f"{min(took_s):.2f} s (the first to offer: {max(took_s):.2f} s)", last["phases"])
