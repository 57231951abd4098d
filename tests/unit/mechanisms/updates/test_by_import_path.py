"""What an import path may lead to: a built-in mechanism, whose radius may follow un-noised norms."""

import pytest

from mechanisms.mechanism import Unprotected
from mechanisms.registry import MECHANISMS, maker_of
from mechanisms.updates.distributed import distributed_dp
from mechanisms.updates.local import aldp, ldp
from mechanisms.updates.record import dp_sgd
from mechanisms.updates.shown_radius import shows_radius
from tests.unit.mechanisms.settings import setting

CALLED = {"ldp": ldp, "aldp": aldp, "dp-sgd": dp_sgd, "distributed-dp-sgd": distributed_dp}


def test_what_makes_a_built_in_mechanism_is_made_as_by_its_name():
    for name, made in CALLED.items():
        assert maker_of(made) is MECHANISMS[name]
    assert maker_of(Unprotected) is Unprotected


@pytest.mark.parametrize(
    ("name", "changed", "shown"),
    [
        ("aldp", {"window_source": "raw"}, True),
        ("aldp", {"window_source": "aggregate"}, False),
        ("aldp", {"window_source": "quantile"}, False),
        ("aldp", {"window_source": "raw", "calibration": "linear-classic"}, True),
        ("ldp", {"window_source": "raw", "calibration": "linear-classic"}, False),
        ("ldp", {}, False),
        ("dp-sgd", {}, False),
        ("none", {}, False),
    ],
)
def test_a_radius_that_follows_un_noised_norms_is_shown(name, changed, shown):
    assert shows_radius(MECHANISMS[name](setting(**changed))) == shown
