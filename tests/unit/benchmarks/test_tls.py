"""Figures of the benchmark of TLS; tests/e2e covers its processes."""

import ssl
from pathlib import Path

import pytest

from benchmarks.secagg.cells import MASKED, Cell, RoundCost, Sample
from benchmarks.secagg.member import Member, Place
from benchmarks.secagg.store import Store
from benchmarks.tls import Side, TimedRound, _figures, loopback_bytes

CELL = Cell(MASKED, 4, 1000)
DEVICES = """Inter-|   Receive             |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs
 eth0:    100       1    0    0    0     0  0         0     50       2    0    0    0     0       0  0
   lo:7000000      11    0    0    0     0  0         0 7123456      11    0    0    0     0       0  0
"""


def side(name: str, cost: float, device_bytes: int | None) -> Side:
    """Makes two rounds, the second at three times the cost."""
    passed = [
        TimedRound(
            RoundCost(cost * late, [Sample(0.1 * cost * late, {"sums": 900}, 1, 0.1, b"m", None)] * CELL.n),
            device_bytes,
        )
        for late in (1, 3)
    ]
    return Side(name, passed, [0.01 * cost] * CELL.n)


def test_a_side_has_figures_of_its_own_and_one_over_the_other_but_no_bytes_that_nobody_counts():
    found = {
        one.figure: one for one in _figures(CELL, side("without", 1.0, 4000), side("under TLS", 1.5, 5000))
    }
    assert {one.case for one in found.values()} == {"masked n=4 d=1000"}
    wall = found["without: wall"]
    assert (wall.median, wall.min, wall.max, wall.samples) == (2, 1, 3, 2)
    assert found["under TLS: CPU a peer"].samples == 8
    assert found["under TLS: CPU a peer"].median == pytest.approx(0.3)
    assert found["under TLS: frames a peer"].median == 900
    assert found["under TLS: passed a peer"].median == 1250
    assert found["under TLS: CPU of meeting"].median == pytest.approx(0.015)
    for name, ratio in (("wall", 1.5), ("CPU", 1.5), ("bytes passed", 1.25)):
        both = found[f"{name}, under TLS / without"]
        assert (both.min, both.max) == pytest.approx((ratio, ratio))
    names = [one.figure for one in _figures(CELL, side("without", 1.0, None), side("under TLS", 1.5, None))]
    assert not [name for name in names if "passed" in name]
    assert "under TLS: frames a peer" in names


def test_the_loopback_device_counts_what_it_has_sent(tmp_path: Path) -> None:
    devices = tmp_path / "dev"
    devices.write_text(DEVICES)
    assert loopback_bytes(devices) == 7123456
    devices.write_text("".join(DEVICES.splitlines(keepends=True)[:3]))
    assert loopback_bytes(devices) is None
    assert loopback_bytes(tmp_path / "nowhere") is None


async def test_a_member_under_tls_listens_and_dials_with_it(tmp_path: Path) -> None:
    endpoints = tuple(f"127.0.0.1:{port}" for port in (1, 2, 3, 4))
    bare, covered = (
        Member(Place(CELL, 0, endpoints, tls), Store(tmp_path / str(tls))) for tls in (False, True)
    )
    assert bare.transport.tls is None
    assert covered.transport.tls is not None
    for context in (
        covered.transport.tls.listening_at(endpoints[0]),
        covered.transport.tls.dialling(endpoints[1]),
    ):
        assert context is not None
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
