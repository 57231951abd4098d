"""A pytest plugin that tells how far tests side by side are, and starts the longest ones first.

It keeps the seconds of each test in the cache of pytest. Load it with `-p tests.progress`, beside `-n`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import pytest

RECORD = "progress/seconds"
LONG_S = 5.0
SLOW_S = 20.0
"""What a test that is marked as slow takes at least."""
TRUSTED_S = 60.0
"""For about so long the recorded seconds count more than the rate of this run."""


def longest_first(items: Iterable[pytest.Item], recorded: Mapping[str, float]) -> list[pytest.Item]:
    """Moves long tests to the front; the others stay in order, next to those that share a fixture."""

    def seconds(item: pytest.Item) -> float:
        slow = SLOW_S if item.get_closest_marker("slow") else 0.0
        taken = recorded.get(item.nodeid, slow)
        return taken if taken >= LONG_S else 0.0

    return sorted(items, key=seconds, reverse=True)


def weights(tests: Sequence[str], recorded: Mapping[str, float]) -> dict[str, float]:
    """Returns the seconds of each test, and the mean for a test without a record; 1 each if none has one."""
    known = [recorded[test] for test in tests if test in recorded]
    mean = fmean(known) if known else 1.0
    return {test: recorded.get(test, mean) for test in tests}


def seconds_left(done: float, todo: float, elapsed_s: float, workers: int, trusted_s: float) -> float | None:
    """Divides what is to do by the rate; at first `workers` seconds of tests pass in a second, if trusted."""
    at_hand = done + workers * trusted_s
    return todo * (elapsed_s + trusted_s) / at_hand if at_hand else None


class Progress:
    """Prints one line again and again: on a terminal each second in place, else every ten seconds."""

    def __init__(self, config: pytest.Config, workers: int) -> None:
        self._config, self._workers = config, workers
        self._recorded: dict[str, float] = config.cache.get(RECORD, {}) if config.cache else {}
        self._seconds, self._failed = Counter[str](), set[str]()
        self._weights: dict[str, float] = {}
        self._done = set[str]()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._tell_again, daemon=True)

    def _tell_again(self) -> None:
        while not self._over.wait(1 if self._reporter.isatty() else 10):
            self._tell()

    def _tell(self) -> None:
        with self._lock:
            self._print(self.line(time.monotonic()))

    def _print(self, line: str, *, stays: bool = False) -> None:
        if not self._reporter.isatty():
            self._reporter.write_line(line)
        else:
            self._reporter.rewrite(line, erase=True)
            if stays:
                self._reporter.write_line("")
        self._reporter.flush()

    def line(self, now: float) -> str:
        """Says how many tests are done, how many failed, and about how long the others last."""
        elapsed_s = now - self._begun
        if not self._weights:
            recorded_s = sum(self._recorded.values()) / self._workers
            later = f"; then about {recorded_s:.0f} s" if self._recorded else ""
            return f"{self._workers} workers collect the tests, {elapsed_s:.0f} s so far{later}"
        done = sum(self._weights.get(test, 0.0) for test in self._done)
        todo = sum(self._weights[test] for test in self._weights.keys() - self._done)
        trusted_s = TRUSTED_S if self._recorded else 0.0
        left_s = seconds_left(done, todo, elapsed_s, self._workers, trusted_s)
        told = "?" if left_s is None else f"{left_s:.0f}"
        return f"{len(self._done)}/{len(self._weights)}, {len(self._failed)} failed, about {told} s left"

    # -- what pytest and pytest-xdist call -----------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        self._reporter: pytest.TerminalReporter = self._config.pluginmanager.getplugin("terminalreporter")
        self._tell()
        self._thread.start()

    def pytest_configure_node(self, node) -> None:
        long = {test: seconds for test, seconds in self._recorded.items() if seconds >= LONG_S}
        node.workerinput["recorded"] = long

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        if not self._weights:
            self._begun = time.monotonic()
            self._weights = weights(ids, self._recorded)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self):
        category, _, word = yield
        return category, "", word  # no dots

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        with self._lock:
            self._seconds[report.nodeid] += report.duration
            if report.when not in ("setup", "call"):  # its end, also that of its worker
                self._done.add(report.nodeid)
            if report.failed:
                self._failed.add(report.nodeid)
                self._print(f"FAILED {report.nodeid}", stays=True)

    def pytest_sessionfinish(self) -> None:
        self._over.set()
        self._thread.join()
        self._tell()
        if self._config.cache:
            seconds = {test: round(self._seconds[test], 2) for test in self._done}
            self._config.cache.set(RECORD, {**self._recorded, **seconds})


class Order:
    """Puts the tests of a worker into the order of all workers."""

    def __init__(self, recorded: Mapping[str, float]) -> None:
        self._recorded = recorded

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = longest_first(items, self._recorded)


@pytest.hookimpl(trylast=True)  # after the reporter, so that its lines come first
def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        config.pluginmanager.register(Order(worker["recorded"]))
    elif workers := len(config.option.tx):
        config.pluginmanager.register(Progress(config, workers))
