import json
from dataclasses import asdict, replace
from pathlib import Path

from node.observe.history_reader import Tail
from node.runtime.record.figures import Record
from node.storage.records import SwarmFigure
from scenarios.swarms.history import by_round, read_history, read_summary
from tests.unit.node.observe.test_lines import SUMMARY

LINE = {"round": 1, "outcome": "aggregated", "reason": None, "accuracy": 0.5, "base_digest": "ab",
        "bytes_sent": 3, "bytes_received": 4, "phases": {"train": {"s": 0.25}}}  # fmt: skip


def text(number: int, **changes: object) -> str:
    return json.dumps({**LINE, "round": number, **changes}) + "\n"


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    tail = Tail(path)
    assert tail.read() == []
    path.write_text(text(1) + text(2)[:20])
    assert [entry.round for entry in tail.read()] == [1]
    assert tail.read() == []
    with path.open("a") as file:
        file.write(text(2)[20:])
    assert [entry.round for entry in tail.read()] == [2]


def test_a_line_of_a_killed_node_is_passed_over_and_of_a_round_written_twice_the_later_counts(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(text(1) + text(2)[:20] + "\n" + '"no object"\n' + text(2))
    assert [entry.round for entry in read_history(path)] == [1, 2]
    lines = [
        Record.from_line(text(2)),
        Record.from_line(text(1)),
        Record.from_line(text(2, outcome="fallback")),
    ]
    ordered = by_round([entry for entry in lines if entry is not None])
    assert [(entry.round, entry.outcome) for entry in ordered] == [(1, "aggregated"), (2, "fallback")]
    assert read_history(tmp_path / "none.jsonl") == ()


def test_a_summary_is_read_once_it_is_there_but_none_of_an_earlier_version(tmp_path):
    path = tmp_path / "summary.json"
    assert read_summary(path) is None
    path.write_text(json.dumps(SUMMARY.as_json()))
    assert read_summary(path) == replace(SUMMARY, sums=json.loads(json.dumps(SUMMARY.sums)))
    path.write_text('{"rounds": 2}')
    assert read_summary(path) is None


def test_the_metric_of_all_rows_is_read_where_it_is_the_headline_and_bytes_where_there_are_any():
    swarm = asdict(SwarmFigure("auc", 0.75, 0.5, None, None, 30, 3, 4))
    same, other, none = (
        Record.from_line(json.dumps({**LINE, "metric": metric, "value": 0.7, "swarm": found}))
        for metric, found in (("auc", swarm), ("accuracy", swarm), ("auc", None))
    )
    assert [one.of_all for one in (same, other, none)] == [0.75, None, None]
    assert (same.metric, same.value) == ("auc", 0.7)
    old = Record.from_line(json.dumps(LINE))
    assert (old.metric, old.value) == ("accuracy", 0.5)
    parsed = Record.from_line(text(1))
    assert (parsed.phases["train"].s, parsed.phases["train"].bytes_sent) == (0.25, 0)
