"""A reporter writes in its own thread; its errors cost the report and nothing else."""

import threading
from dataclasses import dataclass, field

from node.observe.journal import PAGE
from node.observe.reporters.reporter import ReporterThread
from node.runtime.record import events
from tests.unit.node.observe.test_lines import RECORD, SUMMARY

STARTED = events.Started({"task": "digits", PAGE: "http://h:1/#token=secret"})


@dataclass
class Written:
    """A reporter that keeps what it should write, and the thread that wrote it."""

    said: list[object] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    fails_at: int = 0

    def describe(self, lines):
        self.said.append(dict(lines))

    def round(self, number, figures):
        self.threads.add(threading.get_ident())
        if number == self.fails_at:
            raise OSError("no\nroom")
        self.said.append((number, dict(figures)))

    def finish(self, figures):
        self.said.append(("end", figures["aggregated"]))

    def close(self):
        self.said.append("closed")


def test_everything_is_written_in_order_and_in_another_thread():
    written, warned = Written(), []
    observer = ReporterThread("made-up", lambda: written, warned.append)
    for event in (STARTED, events.RoundStarted(1), events.RoundEnded(RECORD, 2), events.Finished(SUMMARY)):
        observer.handle(event)
    observer.close()
    about, (number, figures), end, closed = written.said
    assert about == {"task": "digits"}
    assert (number, figures["accuracy"], figures["metrics.accuracy"]) == (1, 0.9, 0.9)
    assert figures["train_s"] == 0.5
    assert not {"round", "metrics.auc", "outcome", "reason"} & set(figures)
    assert (end, closed, warned) == (("end", 2), "closed", [])
    assert written.threads.isdisjoint({threading.get_ident()})


def test_an_error_ends_the_reporter_with_one_warning_and_not_the_node():
    written, warned = Written(fails_at=1), []
    observer = ReporterThread("made-up", lambda: written, warned.append)
    for event in (events.RoundEnded(RECORD, 2), events.Finished(SUMMARY)):
        observer.handle(event)
    observer.close()
    observer.handle(STARTED)
    assert warned == ["--report made-up ends: OSError: no room"]
    assert written.said == ["closed"]

    def begin():
        raise ImportError("half installed")

    warned = []
    ReporterThread("made-up", begin, warned.append).close()
    assert warned == ["--report made-up ends: ImportError: half installed"]
