"""Long work: one piece at a time, with news on the way and an error in one line."""

import errno
import threading

import pytest

from node.desk.work import MOST_TOLD, Busy, Step, Work, Worker
from node.system.errors import ConfigError
from tests.patience import ENOUGH_S


def done(worker: Worker, run) -> Work:
    """Runs a step to its end."""
    worker.begin(Step("look", "murmuration init", run))
    worker.wait(ENOUGH_S)
    return worker.work


def fails(error):
    def run(tell):
        tell({"text": "so far"})
        raise error

    return run


def test_news_come_on_the_way_and_the_result_at_the_end():
    worker, go, came = Worker(), threading.Event(), threading.Event()
    assert worker.work is None

    def run(tell):
        tell({"text": "reading"})
        came.set()
        go.wait(ENOUGH_S)
        return {"rows": 3}

    begun = worker.begin(Step("look", "murmuration init", run))
    came.wait(ENOUGH_S)
    assert worker.work == Work(1, "look", "murmuration init", "running", ({"text": "reading"},))
    with pytest.raises(Busy, match="murmuration init still runs"):
        worker.begin(Step("check", "murmuration check", run))
    assert all(
        thread.daemon for thread in threading.enumerate() if thread.name == "desk"
    )  # Ctrl-C does not wait for it
    go.set()
    worker.wait(ENOUGH_S)
    assert (begun.number, worker.work.state, worker.work.result) == (1, "done", {"rows": 3})
    assert done(worker, lambda tell: {}).number == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConfigError("--out exists"), "--out exists"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device; make room there"),
        (ValueError("odd\nline"), "ValueError: odd line (this is a fault of the program"),
    ],
)
def test_an_error_is_one_line(error, told, capsys):
    work = done(Worker(), fails(error))
    assert (work.state, work.told, work.result) == ("failed", ({"text": "so far"},), None)
    assert told in work.error
    assert "\n" not in work.error
    assert capsys.readouterr() == ("", "")


def test_a_traceback_is_printed_only_when_asked_for(capsys):
    done(Worker(debug=True), fails(ValueError("odd")))
    assert "Traceback" in capsys.readouterr().err


def test_news_are_bounded():
    def run(tell):
        for place in range(2 * MOST_TOLD):
            tell({"text": str(place)})
        return {}

    assert len(done(Worker(), run).told) == MOST_TOLD
