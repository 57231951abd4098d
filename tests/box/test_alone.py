"""A node's rows alone: trained when its run is over, changing nothing; with privacy told on the spot only."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest

from node.app.run import prepared_on
from node.cli.logs import Log, LogOptions, logging_to
from node.data.dataset import Dataset
from node.observe.lines import event_values
from node.observe.log_observer import LogObserver
from node.observe.prometheus import RoundFigures, new_registry, node_families
from node.observe.run_folder import RunFolder
from node.options import NodeOptions
from node.report.write import write
from node.runtime.record.events import Comparing, Finished
from node.training.alone import LoneTraining
from node.training.figures.headline import Alone
from tests.box.box import SMALL, STEPS, Box, few_digits

ALONE = ("--alone", "60")
FIGURE = 0.123454321
"""What no other figure of a run is."""
SHOWN = "12.3 % alone"


def ended(box: Box) -> Box:
    box.start_all()
    box.run_to_the_end()
    return box


def test_a_run_is_the_same_bit_by_bit_with_and_without_it(make_box) -> None:
    boxes = [ended(make_box(3, 2, seed=5, options=options)) for options in (ALONE, ())]
    one, other = ([node.agreed for node in box.nodes] for box in boxes)
    assert [base for base, _ in one] == [base for base, _ in other]
    assert all((mine == its).all() for (_, mine), (_, its) in zip(one, other, strict=True))
    mine, its = (
        [line for line in box.trace if " said " not in line and " commit " not in line] for box in boxes
    )
    assert mine == its
    compared = [any(isinstance(event, Comparing) for event in box.nodes[0].events) for box in boxes]
    assert compared == [True, False]


def test_without_privacy_it_stands_in_the_last_line_the_summary_and_the_view(make_box) -> None:
    (box,) = [ended(make_box(3, 1, options=ALONE))]
    for node in box.nodes:
        last = node.events[-1]
        assert isinstance(last, Finished)
        assert last.own.alone is not None
        assert " together, " in node.lines[-1]
        assert node.summary["alone"]["value"] == pytest.approx(last.own.alone.value, abs=1e-6)
        assert view(node.folder)["own"]["alone"]["metric"] == "accuracy"


def test_who_is_told_to_end_trains_nothing_alone(make_box) -> None:
    box = make_box(3, 3, options=ALONE)
    box.nodes[0].when_it_says(box.nodes[0].tell_to_end, "round 1/3")
    ended(box)
    assert box.nodes[0].summary["alone"] is None
    assert not any(isinstance(event, Comparing) for event in box.nodes[0].events)
    assert box.nodes[0].status == 130


def test_who_is_told_while_it_trains_alone_has_ended_its_run_all_the_same(make_box) -> None:
    box = make_box(3, 1, options=ALONE)
    node = box.nodes[0]
    node.when(node.tell_to_end, Comparing)
    box.loop.lasts_s = lambda name: 5.0 if name == "partial" else 0.0
    ended(box)
    assert node.status == 0
    assert node.summary["finished"]
    assert not node.has_said("ending: a round that has begun")


@dataclass(frozen=True)
class Known(LoneTraining):
    """One whose figure is known beforehand."""

    def __call__(self, told: Event) -> Alone:
        return Alone("accuracy", FIGURE, 1.0)


@dataclass(frozen=True)
class Broken(LoneTraining):
    """One that a fault of the program ends."""

    def __call__(self, told: Event) -> Alone:
        raise RuntimeError("a fault")


def test_a_fault_of_the_comparison_is_none_of_the_run(make_box, caplog) -> None:
    def prepare(options: NodeOptions, system) -> object:
        data = few_digits(options)
        return replace(prepared_on(options, data, system), lone=Broken(options.task, data, 0, 1, 60.0))

    box = ended(make_box(3, 1, prepare=prepare))
    assert [(node.status, node.summary["finished"], node.summary["alone"]) for node in box.nodes] == [
        (0, True, None)
    ] * 3
    assert "no model of the rows alone" in caplog.text


def known(options: NodeOptions, system) -> object:
    data: Dataset = few_digits(options)
    prepared = prepared_on(options, data, system)
    return replace(prepared, lone=Known(options.task, data, 0, 1, 60.0))


def view(folder: Path) -> dict:
    return json.loads((folder / "view.json").read_text())


@pytest.mark.parametrize(
    ("overrides", "usual"),
    [
        (("privacy.mechanism=ldp",), SMALL),
        (("privacy.mechanism=dp-sgd",), SMALL),
        (("train.steps=2", "train.report_every=2", "privacy.honest=2", "privacy.epsilon=3"), STEPS),
        (("privacy.mechanism=tests.own_mechanisms:Learning",), SMALL),
    ],
    ids=["ldp", "dp-sgd", "distributed", "noise without a guarantee"],
)
def test_with_privacy_no_file_no_log_and_no_program_has_it(make_box, overrides, usual) -> None:
    box = ended(make_box(3, 1, *overrides, options=ALONE, prepare=known, usual=usual))
    for node in box.nodes:
        (told,) = [line for line in node.lines if SHOWN in line]
        assert "(alone: not covered by epsilon: do not pass on)" in told
        assert view(node.folder)["own"] is None
        write([node.folder], {"--html": node.folder / "report.html", "--csv": node.folder / "c"}, force=False)
        files = [path for path in node.folder.rglob("*") if path.is_file()]
        assert {"summary.json", "history.jsonl", "view.json", "report.html"} <= {path.name for path in files}
        log = io.StringIO()
        with logging_to(log, LogOptions("json", "debug")):
            for event in node.events:
                LogObserver(Log("node")).handle(event)
        registry = new_registry()
        RoundFigures(registry).handle(node.events[-1])
        metrics = [*node_families(RunFolder(node.folder).read()), *registry.collect()]
        programs = json.dumps([event_values(event) for event in node.events])
        assert [path.name for path in files if b"0.12345" in path.read_bytes()] == []
        assert "0.12345" not in programs + log.getvalue() + str(metrics)
