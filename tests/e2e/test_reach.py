"""From files to a model by invitation, where sites let nothing in and a relay only carries."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from node.storage.swarm_file import read_swarm
from tests.e2e import proxy
from tests.e2e.invited import DATA, PASSWORD, RELAY, Owner, Place, slowed
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


@pytest.mark.parametrize("intercepts", [False, True])
def test_two_wards_behind_firewalls_and_one_behind_a_proxy_come_from_files_to_a_model(
    make_wire, nursery: Nursery, tmp_path: Path, intercepts: bool
) -> None:
    place = Place(nursery, make_wire(WARDS, 7, Conditions()), tmp_path)
    told = place.start_proxy(PROXY, "--password", PASSWORD, *(["--intercept"] if intercepts else []))
    owners = a, b, c = place.owner(1, "Ward A"), place.owner(2, "Ward B"), place.owner(4, "Ward C", PROXY)
    place.invite(a, (b, c), "--peers", "3", "--rounds", "2")
    for owner in owners:
        owner.process.line("round 1/2: aggregated with 3 peers")
    all_end(owners)
    assert told.line("200 OK") == f"200 OK {address(RELAY)}:443"
    assert {path.name for path in c.folder.iterdir()} == {DATA, "runs"}


SITES = 8
OUTAGE_S = 18.0
"""Six minutes, scaled by 1/20 as rounds are."""
FAILED = 4
"""Sums under way that may fail: one in each outage of a line, one at the relay's end, and one more."""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("rounds", "privacy"), [(20, ("--epsilon", "4")), (200, ("--privacy", "none"))], ids=["steps", "rounds"]
)
def test_eight_sites_one_of_them_slow_through_two_outages_and_a_relay_that_is_killed(
    make_wire, nursery: Nursery, tmp_path: Path, rounds: int, privacy: tuple[str, ...]
) -> None:
    """A deployment at one twentieth of its times. Nobody has to do anything, and who is away spends no round.

    With noise on all steps a round has ten sums; without, it is a tenth as long.
    """
    wire = make_wire((OPEN, *[HTTPS_ONLY] * SITES), 7, Conditions(0.01, 0.005))
    place = Place(nursery, wire, tmp_path)
    owners = [place.owner(number, f"Site {number}") for number in range(1, SITES + 1)]
    inviter, slow = owners[0], owners[-1]
    over = threading.Event()
    place.invite(inviter, owners[1:], "--peers", str(SITES), "--rounds", str(rounds), *privacy)
    inviter.process.line(f"round 1/{rounds}:")
    with slowed(slow.process, 20):
        for number in (2, 3):
            inviter.process.line(f"round {rounds * number // 10}/{rounds}:")
            with wire.cut(number):
                over.wait(OUTAGE_S)
        place.relay.kill()
        place.start_relay()
        inviter.process.line(f"round {rounds * 9 // 10}/{rounds}:")
    all_end(owners)
    for owner in owners:
        told = history(owner.run)
        assert all(line["alone"] == 0 and line["reason"] != "group-timeout" for line in told), owner.name
        assert sum(line["reason"] is not None for line in told) <= FAILED, owner.name
        print(owner.name, len(told), [line["participants"] for line in told])
