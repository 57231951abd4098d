"""The log: one line per event, stable names and fields, and no secrets."""

import io
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from node.cli.error_handling import guarded
from node.cli.logs import NO_LOG, Log, LogOptions, complain, logging_to
from node.observe.journal import PAGE
from node.observe.lines import JsonOutput, TextOutput, event_values
from node.observe.log_observer import LogObserver
from node.options import read_options
from node.runtime.record import events, fields
from node.runtime.record.events import NodeEvent, Observers
from node.runtime.record.figures import Record, Summary
from node.runtime.record.own_figures import OwnFigures
from node.system.errors import ConfigError
from node.training.figures.headline import Alone
from protocol.actions import Note, Notice
from protocol.wire.messages import Base
from tests.unit.node.observe.test_lines import RECORD, SUMMARY, SUMS
from website.reference import log_fields

JSON = LogOptions("json", "info")
HERE = "127.0.0.1:9001"
LOSS, TOKEN = 0.7654321, "ef" * 32
HEAD = {"time", "level", "part", "event"}


def logged(say, options=JSON):
    """Returns the lines that `say` leads to, as objects."""
    out = io.StringIO()
    with logging_to(out, options):
        say(Log("node"))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_is_an_object_with_time_level_part_and_event_and_text_is_for_people():
    (line,) = logged(lambda log: log.info("peer-joined", peer=HERE, text="a\nb"))
    assert list(line)[:4] == ["time", "level", "part", "event"]
    assert line["time"].endswith("Z")
    said = {"level": "info", "part": "node", "event": "peer-joined", "text": "a\nb"}
    assert said.items() <= line.items()
    out = io.StringIO()
    with logging_to(out, LogOptions("text", "info")):
        Log("tracker").warning("warning", text="a\nb", rounds=3)
    (told,) = out.getvalue().splitlines()
    assert told.endswith(' warning tracker warning text="a\\nb" rounds=3')


@pytest.mark.parametrize(("level", "told"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_the_least_that_is_written(level, told):
    levels = ("debug", "info", "warning", "error")
    lines = logged(lambda log: [getattr(log, name)(name) for name in levels], LogOptions("json", level))
    assert [line["level"] for line in lines] == [*levels[4 - told :]]


def test_without_log_nothing_is_written(capsys):
    with logging_to(io.StringIO(), NO_LOG) as _:
        Log("node").error("failed")
    assert capsys.readouterr() == ("", "")
    out = io.StringIO()
    with logging_to(out, JSON):
        pass
    Log("node").error("afterwards")
    assert out.getvalue() == ""


def test_what_a_library_warns_of_is_a_line_of_the_same_form():
    def warn(_):
        try:
            raise OSError("no\nroom")
        except OSError:
            logging.getLogger("asyncio").exception("never %s", "retrieved")

    (line,) = logged(warn)
    assert (line["event"], line["part"], line["text"]) == ("library", "asyncio", "never retrieved")
    assert line["error"] == "OSError: no room"
    assert "traceback" not in line
    (line,) = logged(warn, LogOptions("json", "debug"))
    assert line["traceback"].startswith("Traceback")


def test_the_last_line_is_an_event_where_the_log_is_json(capsys):
    def fail():
        raise ConfigError("--data 'x' is refused")

    (line,) = logged(lambda _: guarded(fail, False, complain(JSON, "node")))
    assert (line["event"], line["status"], line["text"]) == ("failed", 2, "--data 'x' is refused")
    assert guarded(fail, False, complain(LogOptions("text", "info"), "node")) == 2
    assert capsys.readouterr().err == "error: --data 'x' is refused\n"


def test_a_fault_of_the_program_is_one_line_and_a_traceback_only_with_debug(capsys):
    def fault():
        raise ValueError("a\nb")

    assert guarded(fault, False, complain(NO_LOG, "node")) == 1
    told = "error: ValueError: a b (this is a fault of the program; --debug shows where)\n"
    assert capsys.readouterr().err == told
    assert guarded(fault, True, complain(NO_LOG, "node")) == 1
    assert capsys.readouterr().err.startswith("Traceback")


def test_debug_is_a_log_of_everything():
    argv = ["--peers", HERE]
    assert read_options(argv, {}).log == NO_LOG
    assert read_options([*argv, "--debug"], {}).log == LogOptions("text", "debug")
    assert read_options([*argv, "--debug", "--log", "json"], {}).log == LogOptions("json", "debug")
    assert read_options([*argv, "--log", "json"], {}).log == JSON


PAGE_LINE = {PAGE: f"http://{HERE}/#token={TOKEN}"}
EVERYTHING = (
    events.Started({"node": f"{'cd' * 32} at {HERE}", "task": "digits", "may join": "anyone", **PAGE_LINE}),
    events.GroupResized(SUMS),
    events.RoundStarted(1),
    events.RoundEnded(replace(RECORD, loss=LOSS, train_loss=LOSS, rolled_back=(LOSS, LOSS)), 2),
    events.CaughtUp(Base(3, bytes(32), 3, bytes(32)), "proved by a certificate from abcd"),
    events.Outpaced(22.0, 3, 14),
    *(events.Noticed(Notice(kind, HERE, "12345678"), f"{HERE} in words") for kind in Note),
    events.RolledBack(f"rolled back: loss on own rows {LOSS} -> {LOSS}"),
    events.Warned("2 of 3 coordinates were cut"),
    events.Draining(30.0),
    events.Comparing(60.0),
    events.Finished(SUMMARY, OwnFigures(Alone("accuracy", LOSS, 1.0))),
    events.Finished(replace(SUMMARY, finished=False)),
    events.Lingering(60.0),
    events.Finished(replace(SUMMARY, aggregated=0, fallbacks=2)),
)
"""All events of a node."""


def everything(observer):
    for event in EVERYTHING:
        observer.handle(event)


def test_everything_is_every_kind_of_event():
    assert {type(event) for event in EVERYTHING} == set(get_args(NodeEvent))


WHY = (
    "lost coordinator other-swarm not-allowed wrong-pin refused unreachable other-version clock epoch slow "
    "behind withholds"
)


def always(kind) -> set[str]:
    return {name for name, log, _ in fields.logged(kind) if log.always}


FIELDS = {
    "started": {"key", "listen", "task", "may_join"},
    "sums": {"text", *SUMS.facts},
    "training": {"round"},
    "round": {"rounds", *always(Record)},
    "caught-up": {"generation", "base_digest", "how"},
    "outpaced": {"train_s", "rounds", "round"},
    **{f"peer-{name}": {"peer", "key"} for name in ("joined", "left")},
    **{f"peer-{name}": {"peer", "why"} for name in WHY.split()},
    **{name: {"text"} for name in ("waiting", "alone", "weak", "quorum", "stays", "follows", "warning")},
    "rolled-back": set(),
    "draining": {"within_s"},
    "comparing": {"within_s"},
    "lingering": {"for_s"},
    "finished": always(Summary),
}
FIELDS["stopped"] = FIELDS["finished"]


def test_every_event_has_its_name_and_its_fields():
    lines = logged(lambda log: everything(LogObserver(log)), LogOptions("json", "debug"))
    assert {line["event"]: set(line) - HEAD for line in lines} == FIELDS


def test_every_event_and_field_is_documented():
    text = (Path(__file__).resolve().parents[4] / "docs" / "operating.md").read_text("utf-8")
    table = text.partition("| event | level | fields |")[2].partition("\n\n")[0]
    for event in (*FIELDS, "failed", "library", "dropped"):
        assert f"`{event}`" in table
    for field in {*FIELDS["caught-up"], *FIELDS["draining"]}:
        assert f"`{field}`" in table
    rounds = "`round`, `rounds`" + log_fields(Record).removeprefix("`round`")
    assert f"| `round` | info | {rounds} |" in table
    assert f"| `finished`, `stopped` | info | of a node: {log_fields(Summary)} |" in table


def test_the_log_holds_no_loss_and_no_whole_key():
    text = json.dumps(logged(lambda log: everything(LogObserver(log)), LogOptions("json", "debug")))
    assert not [secret for secret in ("loss", str(LOSS), "cd" * 9, TOKEN) if secret in text]
    assert "cd" * 8 in text


def test_what_an_owner_should_look_at_is_a_warning():
    lines = logged(lambda log: everything(LogObserver(log)), LogOptions("json", "warning"))
    peers = ("other-swarm", "not-allowed", "wrong-pin", "refused", "other-version", "clock", "epoch")
    others = ("waiting", "weak", "follows", "rolled-back", "warning", "alone")
    assert [line["event"] for line in lines] == [*(f"peer-{name}" for name in peers), *others]


def test_each_observer_is_told_everything_in_the_same_order():
    class Deaf:
        def handle(self, event):
            pass

    one, other, alone = io.StringIO(), io.StringIO(), io.StringIO()
    everything(JsonOutput(alone))
    everything(Observers([JsonOutput(one), Deaf(), JsonOutput(other)]))
    assert one.getvalue() == other.getvalue() == alone.getvalue()


def test_a_program_reads_every_event_by_its_name():
    names = (
        "started sums training round caught-up outpaced notice warning draining comparing finished lingering"
    )
    assert list(dict.fromkeys(event_values(event)["event"] for event in EVERYTHING)) == names.split()


def test_the_owner_is_told_of_a_drain_and_of_a_refused_base():
    plain, program = io.StringIO(), io.StringIO()
    for observer in (TextOutput(plain), JsonOutput(program)):
        observer.handle(events.Draining(30.0))
        observer.handle(events.RolledBack("rolled back"))
    assert plain.getvalue().splitlines() == [
        "ending: a round that has begun may take 30 s; interrupt again to end at once",
        "warning: rolled back",
    ]
    assert [json.loads(line)["event"] for line in program.getvalue().splitlines()] == ["draining", "warning"]
