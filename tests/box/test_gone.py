"""Electors that never come back: what a swarm reports, and what it does without them once owners say so."""

from __future__ import annotations

from node.rejoin.__main__ import main as rejoin

FALLBACKS = 11
"""The rounds of 3 s until five have failed and 30 s are over."""


def test_three_of_eight_go_on_weakly_and_for_good_once_all_owners_say_that_the_rest_is_gone(
    make_box, capsys
) -> None:
    """Number 0 is the first elector: with one more of the gone they were half of the eight."""
    box = make_box(8, 1000, "aggregation.group_timeout_s=3", "aggregation.liars=0")
    here, gone = box.nodes[:3], box.nodes[3:]
    ends = [node.endpoint for node in gone]
    box.start_all()
    box.run(lambda: all(node.has_aggregated(2) for node in box.nodes))
    for node in gone:
        node.kill()

    box.run(lambda: all(node.has_said("waiting for 1 of: ") for node in here))
    for node in here:
        (text,) = (line for line in node.lines if line.startswith("waiting for 1 of: "))
        assert all(end in text for end in ends), text
        assert ", who made the last model; goes on without them after " in text
        assert text.endswith(f"if they are gone for good: python -m node.rejoin --out {node.folder}")
        inspector = node.engine.inspector
        assert inspector.troubles["waiting"].startswith("waiting for 1 of 5 peers, who made the last model")
        assert inspector.node.picture().obstacle.missing == 1
    box.run(lambda: all(node.has_said("was agreed without a quorum") for node in here))
    for node in here:
        assert node.has_said("it counts until they are back")
        assert "until they are back, models are agreed without them" in node.engine.inspector.waiting
    for node in here:
        node.tell_to_end()
    box.run(lambda: all(node.is_over for node in here))
    assert [node.status for node in here] == [130] * 3

    names = [part for end in ends for part in ("--gone", end)]
    for node in here:
        assert rejoin(["--out", str(node.folder), *names, "--yes"]) == 0
        assert "then 2 of the 3 make a quorum" in capsys.readouterr().out
    for node in here:
        node.start()
    box.run(lambda: all(any(one.without for one in node.records[:-1]) for node in here))
    for node in here:
        (said,) = (line for line in node.lines if line.startswith("gone for good: "))
        assert all(end in said for end in ends), said
        assert [one.participants for one in node.records] == [8, 8, *[0] * FALLBACKS, 3, 3, 3]
        *before, strong, after = node.records
        assert [one.without for one in (*before, after)] == [()] * (len(before) + 1)
        assert sorted(strong.without) == sorted(ends)
        (warning,) = (line for line in node.lines if line.startswith("warning: ") and "WITHOUT" in line)
        assert all(end in warning for end in ends), warning


def test_a_lone_survivor_makes_no_model_of_its_own(make_box) -> None:
    box = make_box(3, 1000, "aggregation.group_timeout_s=1")
    alone, *gone = box.nodes
    box.start_all()
    box.run(lambda: all(node.has_aggregated(2) for node in box.nodes))
    made = len(alone.records)
    for node in gone:
        node.kill()
    box.run_for(60)
    _, *reasons = (one.reason for one in alone.records[made:])  # the first one's session had begun
    assert reasons == ["group-timeout"] * len(reasons)
    assert len(reasons) > 50
    assert {one.base_digest for one in alone.records[made:]} == {alone.records[made - 1].base_digest}
    waiting = alone.engine.inspector.waiting
    assert "a model takes at least 3 peers, and 1 is here" in waiting
    assert "rejoin" not in waiting
