"""Real nodes with noise: each sees about how good the model is on all rows, and no counts go uncharged."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.swarm import STEPS, Swarm, frozen, history, one_digest, rows, summary

PEERS, ROUNDS, EVERY, DEAD = 5, 3, 5, 3
COUNTED = (
    "aggregation.swarm_metric=sums",
    "aggregation.swarm_metric_every=1",
    "privacy.metric_share=0.5",
    "privacy.epsilon=3",
)
RUN = (f"train.steps={ROUNDS * EVERY}", f"train.report_every={EVERY}", "privacy.honest=2", *COUNTED)
RESERVED = 1
"""Counts beyond one in each round that the budget has, for sums that fail."""


def shared(make_swarm) -> Swarm:
    group = "aggregation.min_participants=4"
    swarm: Swarm = make_swarm(PEERS, ROUNDS, *RUN, group, usual=STEPS)
    return swarm


def counted(out: Path) -> list[int]:
    """Returns how many releases of counts each charge in a ledger has, in order."""
    charges = rows(out, "select events from ledger order by round")
    return [
        sum(json.loads(event)["event"] == "gaussian" for event in text.splitlines()) for (text,) in charges
    ]


def same_figures(outs: list[Path]) -> list[dict[str, object]]:
    """Returns the figures of all rounds, which all nodes have, but for their own value."""
    found = [[line["swarm"] for line in history(out)] for out in outs]
    for figures in zip(*found, strict=True):
        assert len({json.dumps({**figure, "mine": None}) for figure in figures if figure}) <= 1
    return found[0]


def test_all_see_about_the_metric_of_all_rows_beside_their_own(make_swarm) -> None:
    swarm = shared(make_swarm)
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    outs = [swarm.out(number) for number in range(PEERS)]
    for figure in same_figures(outs):
        assert (figure["metric"], figure["noised"], figure["peers"]) == ("accuracy", True, PEERS)
        assert figure["rows"] == pytest.approx(360 * PEERS, abs=300)
        assert 0 < figure["error"] < 0.1
        assert figure["value"] == pytest.approx(figure["mine"], abs=6 * figure["error"])
    for out in outs:
        assert [at for at, each in enumerate(counted(out), 1) if each] == [5, 10, 15]
        privacy = summary(out)["privacy"]
        assert privacy["counts_charged"] == ROUNDS
        assert privacy["epsilon_spent"] <= privacy["epsilon_budget"] == 3.0
        assert summary(out)["swarm"] == history(out)[-1]["swarm"]


KILLS = [
    ("charged-and-nothing-sent", Fate("Masked", nth=1, session=EVERY, moment="before")),
    ("some-have-its-counts", Fate("Masked", nth=3, session=EVERY, moment="before")),
    ("all-have-its-counts", Fate("Masked", nth=4, session=EVERY, moment="after")),
    ("charged-ahead-and-not-offered", Fate("Release", nth=4, session=EVERY - 1, moment="after")),
]


@pytest.mark.parametrize("fate", [fate for _, fate in KILLS], ids=[name for name, _ in KILLS])
def test_one_of_five_killed_around_its_counts(make_swarm, tmp_path: Path, fate: Fate) -> None:
    """What it was charged stands; its next counts have noise and a charge of their own; all figures agree."""
    swarm, offers = shared(make_swarm), tmp_path / "offers"
    nodes = swarm.start_all({DEAD: Orders(fate=fate, offers=offers)})
    victim, others = nodes[DEAD], [node for node in nodes if node is not nodes[DEAD]]
    assert victim.status() == -signal.SIGKILL
    out = swarm.out(DEAD)
    before = counted(out)
    assert before == [0, 0, 0, 0, 1], "on disk before anything of the offer has left"
    others[0].event("round", round=1)
    with frozen(others):
        again = swarm.start(DEAD, orders=Orders(offers=offers))
        again.event("training")
    ends = [node.ends_well() for node in (*others, again)]

    one_digest(ends)
    after = counted(out)
    assert after[: len(before)] == before
    assert sum(after) <= ROUNDS + RESERVED
    _each_charged(out, offers)
    same_figures([swarm.out(number) for number in range(PEERS) if number != DEAD])
    for number in range(PEERS):
        privacy = summary(swarm.out(number))["privacy"]
        assert privacy["epsilon_spent"] <= privacy["epsilon_budget"] == 3.0


def _each_charged(out: Path, offers: Path) -> None:
    """No words were offered twice over both lives, and no more offers left than were charged."""
    sids, words = zip(*(line.split() for line in offers.read_text().splitlines()), strict=True)
    assert len(set(sids)) == len(sids)
    assert len(set(words)) == len(words)
    assert 0 <= len(rows(out, "select sid from ledger")) - len(sids) <= 1


def test_with_dp_sgd_each_node_adds_all_of_its_noise(make_swarm) -> None:
    swarm = make_swarm(3, 3, "privacy.mechanism=dp-sgd", *COUNTED)
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    outs = [swarm.out(number) for number in range(3)]
    figures = same_figures(outs)
    assert any(figures)
    for figure in filter(None, figures):
        assert (figure["noised"], figure["peers"]) == (True, 3)
        assert figure["rows"] == pytest.approx(360 * 3, abs=500)
    for out in outs:
        assert counted(out) == [1, 1, 1]
        privacy = summary(out)["privacy"]
        assert privacy["epsilon_spent"] <= privacy["epsilon_budget"] == 3.0
