"""A round's fields are declared once, and what a field says of itself is so wherever rounds are shown."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, fields, replace

from prometheus_client import CollectorRegistry

from benchmarks.page.server import node_view
from node.cli.logs import Log, LogOptions, logging_to
from node.observe.log_observer import LogObserver
from node.observe.prometheus import RoundFigures
from node.observe.views import document
from node.runtime.record.artifacts import Folder
from node.runtime.record.events import RoundEnded
from node.runtime.record.fields import Logged, Scraped, log_line, told
from node.runtime.record.figures import Record
from node.storage.records import SwarmFigure, Traffic
from node.training.model_file import Card
from tests.unit.node.observe.test_lines import RECORD, SUMMARY
from website.reference import fields_table, log_fields

CARD = Card({}, 2, (3,), ())


@dataclass(frozen=True, slots=True)
class Made(Record):
    """A round with fields that no round has."""

    felt: float | None = told(
        "How it felt.",
        None,
        log=Logged(99, digits=2),
        kept=True,
        metric=Scraped("murmuration_felt", "How rounds felt.", is_counter=True),
        outside=lambda value: None if value is None else 10 * value,
    )
    secret: int = told("What nobody is told.", 0, page=False)


def test_a_field_that_is_declared_in_one_place_stands_in_all_its_places(tmp_path):
    made = Made(round=3, outcome="aggregated", felt=0.123456789, secret=7)
    Folder(tmp_path, CARD).append(made)
    line = (tmp_path / "history.jsonl").read_text()
    assert json.loads(line).items() >= {"felt": 0.123457, "secret": 7}.items()
    assert Made.from_line(line) == replace(made, felt=0.123457)
    assert Made.from_ending(made.to_ending()) == replace(made, secret=0)

    (shown,) = document(replace(node_view(), history=(made,)))["history"]
    assert shown["felt"] == 1.23456789
    assert "secret" not in shown

    log, registry = io.StringIO(), CollectorRegistry()
    with logging_to(log, LogOptions("json", "info")):
        LogObserver(Log("node")).handle(RoundEnded(made, 20))
    assert list(json.loads(log.getvalue()).items())[-1] == ("felt", 1.23)
    figures = RoundFigures(registry, Made)
    for _ in range(2):
        figures.handle(RoundEnded(made, 20))
    assert registry.get_sample_value("murmuration_felt_total") == 2 * 0.123456789

    assert "| `felt` | How it felt. | `float` |" in fields_table(Made)
    assert "`felt`" in log_fields(Made)
    assert "`secret`" not in log_fields(Made)


def test_what_the_state_keeps_of_a_round_is_what_it_always_kept_and_earlier_texts_are_read():
    figure = SwarmFigure("auc", 0.7, 0.5, None, None, 30, 3, 4)
    cost = {"phases": {"sums": Traffic(1 / 3, 7, 8)}, "train_loss": 1 / 3, "missing": ("ab",)}
    kept = Record(round=3, own=15, outcome="aggregated", steps=5, swarm=figure, **cost)
    text = kept.to_ending()
    assert Record.from_ending(text) == kept, "all digits"
    assert json.loads(text).keys() == {
        *("round", "outcome", "reason", "participants", "bytes_sent", "bytes_received", "train_s"),
        *("aggregate_s", "train_loss", "missing", "clipped", "phases", "without", "part_of", "steps"),
        *("steps_failed", "swarm", "alone"),
    }
    assert (json.loads(text)["round"], json.loads(text)["part_of"]) == (15, 3)
    assert json.loads(replace(kept, round=0).to_ending())["part_of"] is None
    later = ("without", "part_of", "steps", "steps_failed", "swarm", "alone")
    former = {name: value for name, value in json.loads(text).items() if name not in later}
    assert Record.from_ending(json.dumps(former)) == replace(kept, round=0, steps=0, swarm=None)


def test_a_small_delta_is_written_as_it_is():
    for figures in (RECORD, SUMMARY):
        assert replace(figures, delta=1e-8).as_json()["delta"] == 1e-8


def test_the_log_has_some_fields_only_where_they_say_something():
    some = {"names": {"ab": "ward"}, "epsilon_alone": 0.0}
    assert log_line(replace(RECORD, **some)).items() >= some.items()
    assert not log_line(RECORD).keys() & some.keys()


def test_a_line_of_history_becomes_the_same_round_again():
    written = replace(RECORD, rolled_back=(0.5, None), names={"ab": "ward"}, without=("10.0.0.1:1",))
    assert Record.from_line(json.dumps(written.as_json())) == written
    assert [entry.name for entry in fields(Record)] == list(written.as_json())


def test_the_sums_of_one_round_are_told_as_one():
    added = ("bytes_sent", "bytes_received", "train_s", "aggregate_s", "steps_failed")
    shares, timeout = Traffic(2.0, 5, 6), {"reason": "sums-timeout", "train_loss": 2.0}

    def told(figures, sums, *phases, outcome="aggregated", **more):
        in_phases, sizes = {"sums": Traffic(*sums), **dict(phases)}, dict(zip(added, figures, strict=True))
        return Record(round=2, outcome=outcome, phases=in_phases, **sizes, **more)

    once = {"participants": 4, "without": ("gone",), "steps": 1}
    first = told((10, 20, 1.5, 0.5, 1), (1.0, 2, 3), train_loss=3.0, missing=("ab", "cd"), **once)
    failed = {"outcome": "fallback", "missing": ("ef", "ab"), **timeout}
    last = told((1, 2, 0.5, 0.25, 1), (1.0, 1, 1), ("shares", shares), **failed)
    both = {"missing": ("ab", "cd", "ef"), **once, **timeout}
    assert last.after(first) == told((11, 22, 2.0, 0.75, 2), (2.0, 3, 4), ("shares", shares), **both)
    assert first.after(last).participants == 4
    assert first.after(replace(first, participants=3, without=("other",))).without == ("gone",)
