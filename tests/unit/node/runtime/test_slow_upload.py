"""The line for the owner of a node whose part of a sum comes too late for the others."""

from dataclasses import replace

import pytest

from node.net.traffic import Uploads
from node.runtime.slow_upload import sent_bytes, slow_upload_text
from node.task.sections import AggregationSection

SECTION = AggregationSection()
D = 1_075_000


def test_the_line_says_what_it_needs_what_the_others_wait_and_what_to_do():
    text = slow_upload_text(SECTION, D, 4, 25_000.0)
    assert text == (
        "your upload needs 258 s (6.5 MB at 25.0 kB/s), the others wait 217: set aggregation.least_rate to "
        "25000 or less at all peers, take a smaller model, or use a faster line"
    )


@pytest.mark.parametrize("rate", [250_000.0, 64_000.0])
def test_a_line_at_the_least_rate_is_fast_enough(rate: float):
    assert slow_upload_text(SECTION, D, 4, rate) is None


def test_shares_are_a_vector_to_each_and_groups_of_three_have_no_others():
    assert sent_bytes(SECTION, D, 3) == 4 * D * 2
    assert sent_bytes(replace(SECTION, protocol="additive"), D, 5) == 4 * D * 4
    assert sent_bytes(SECTION, D, 4) == 2 * 4 * (D + 1) * 3 / 4


def test_the_rate_is_that_to_all_peers_and_one_that_hangs_does_not_count():
    uploads = Uploads()
    assert uploads.measured(0.0) is None
    for peer, ends_s in (("a", 1.0), ("b", 2.0)):
        uploads.begin(peer, 1000, 0.0)
        uploads.end(peer, ends_s)
    uploads.begin("hangs", 1000, 0.0)
    assert uploads.measured(100.0) == (3, 3 * 500.0)
    uploads.restart()
    assert uploads.measured(100.0) == (1, 10.0)
