"""From files to a model by invitation: sites that let nothing in, and a relay that only carries."""

from __future__ import annotations

import time
from pathlib import Path

from node.invitation.swarm_file import read_swarm
from tests.e2e import proxy
from tests.e2e.invited import PASSWORD, Place, run_folder
from tests.e2e.namespaces import HTTPS_ONLY, OPEN, Conditions, Site, exit_at
from tests.e2e.processes import Nursery
from tests.run_folders import summary

PROXY = 3
WARDS = (OPEN, HTTPS_ONLY, HTTPS_ONLY, OPEN, Site(frozenset((exit_at(PROXY, proxy.PORT),))))


def test_two_wards_behind_firewalls_and_one_behind_a_proxy_learn_together(
    make_wire, nursery: Nursery, tmp_path: Path
) -> None:
    place = Place(nursery, make_wire(WARDS, 7, Conditions()), tmp_path)
    asked = place.start_proxy(PROXY, "--password", PASSWORD)
    a, b = place.owner(1, "Ward A"), place.owner(2, "Ward B")
    c = place.owner(4, "Ward C", proxied_by=PROXY)
    begun = time.monotonic()
    codes = place.invite(a, (b, c), "--peers", "3", "--rounds", "2")
    for owner in (b, c):
        place.join(owner, codes[owner.name])
    owners = (a, b, c)
    for owner in owners:
        owner.process.line("round 1/2: aggregated with 3 peers")
    print(f"\nfrom files to round 1: {time.monotonic() - begun:.1f} s")
    for owner in owners:
        assert owner.process.status() == 0, owner.process.told()
        print("=====", owner.name, *owner.process.out.all(), *owner.process.err.all(), sep="\n")
    folders = [run_folder(owner) for owner in owners]
    assert len({summary(folder)["base_digest"] for folder in folders}) == 1
    assert len({read_swarm(folder).roster.digest for folder in folders}) == 1
    assert asked.line("200 OK") == "200 OK 10.77.0.1:443"
