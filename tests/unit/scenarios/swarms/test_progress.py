import io
import re
from pathlib import Path

from rich.console import Console

from node.runtime.record.figures import Record
from scenarios.frame.progress import Pace, clock
from scenarios.frame.work import Call
from scenarios.swarms.progress import Bars, Lines, PeerProgress, accuracy_range, round_line, shown

CALLS = [Call(name, "m:f", (), rounds, Path(name)) for name, rounds in (("alone 0", 2), ("pooled", 1))]


def ended(number: int, outcome: str = "aggregated") -> Record:
    return Record(round=number, outcome=outcome, accuracy=0.5 + number / 100)


def test_a_peers_progress_counts_its_outcomes_and_time_left_from_the_first_news_on():
    assert PeerProgress.of([]) == PeerProgress(0, 0, 0, None)
    assert PeerProgress.of([ended(1), ended(2, "fallback")]) == PeerProgress(2, 1, 1, 0.52)
    said = [clock(seconds) for seconds in (None, 0.0, 59.6, 125.0)]
    assert said == ["-:--", "0:00", "1:00", "2:05"]
    pace = Pace()
    assert pace.left_s(1, 20, now_s=100.0) is None
    assert pace.left_s(1, 20, now_s=101.0) is None
    assert pace.left_s(6, 20, now_s=105.0) == 14.0
    assert pace.left_s(20, 20, now_s=120.0) == 0.0


def test_the_line_tells_the_round_that_all_have_ended_and_one_figure_where_the_peers_agree():
    peers = [PeerProgress(4, 4, 0, 0.9), PeerProgress(5, 4, 1, 0.8)]
    assert (
        round_line(peers, 20, left_s=32.0)
        == "round 4/20  accuracy 80.0% to 90.0%  8 aggregated, 1 fell back  0:32 left"
    )
    assert accuracy_range([PeerProgress(1, 1, 0, 0.9), PeerProgress(1, 1, 0, 0.9)]) == "90.0%"
    assert accuracy_range([PeerProgress(0, 0, 0, None)]) == "-"


def test_without_a_terminal_every_round_is_one_line() -> None:
    out = io.StringIO()
    with shown(Console(file=out, width=40), peers=2, rounds=3) as display:
        assert isinstance(display, Lines)
        display.stage("starting")
        for rounds in ((1, 0), (1, 1), (2, 1), (2, 2), (2, 2)):
            display.peers([PeerProgress(number, number, 0, 0.5) for number in rounds])
        display.calls("baselines", CALLS).call_ended(CALLS[0])
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["starting", "round 1/3", "round 2/3"]


def test_on_a_terminal_there_is_a_bar_for_each_peer_and_for_the_baselines() -> None:
    out = io.StringIO()
    with shown(Console(file=out, width=120, force_terminal=True), peers=3, rounds=2) as display:
        assert isinstance(display, Bars)
        display.stage("starting the peers")
        display.peers([PeerProgress(2, 1, 1, 0.5)] * 3)
        watch = display.calls("baselines", CALLS)
        for number in (1, 2):
            watch.round_ended(CALLS[0], number, 0.5)
        watch.call_ended(CALLS[1])
    said = out.getvalue()
    assert all(name in said for name in ("swarm", "peer 0", "peer 2", "baselines", "fell back", "round 2/2"))
    assert re.search(r"baselines[^\r\n]*done", said), "three of three rounds"
