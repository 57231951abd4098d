"""Privacy as the owner sees it: in plain lines, as JSON, and in the live view's table."""

import asyncio
import io
import json
import os
from dataclasses import asdict, replace

import pytest
from rich.console import Console

from mechanisms.accounting.ledger import Ledger
from node.observe.choose import is_journal, open_texts
from node.observe.lines import (
    JsonOutput,
    TextOutput,
    alone_text,
    event_texts,
    event_values,
    round_text,
    summary_text,
)
from node.observe.live import LiveView
from node.runtime.privacy.budget import facts, make_mechanism
from node.runtime.privacy.group_guarantees import withstands
from node.runtime.record import events
from node.runtime.record.figures import Record, Summary
from node.runtime.record.own_figures import OwnFigures
from node.runtime.snapshot import Snapshot
from node.storage.records import SwarmFigure
from node.task.load import load_task
from node.training.figures.headline import Alone
from protocol.actions import Note, Notice, Reason
from tests.parts import base

TASK = load_task("digits", ["privacy.mechanism=ldp", "privacy.epsilon=2", "train.rounds=2"])
LDP = make_mechanism(TASK, [("a", (8,))], 100)

SUMS = withstands(load_task("digits", ["aggregation.protocol=masked"]).aggregation, 10)

OF_BOTH = {"accuracy": 0.9, "epsilon": None, "delta": None, "bytes_sent": 1000, "bytes_received": 1000}
OF_BOTH |= {"base_digest": "ab" * 32, "accuracy_of": "test", "metrics": {"accuracy": 0.9, "auc": None}}
OF_BOTH |= {"metric": "accuracy", "value": 0.9, "baseline": 0.1}
OF_ROUND = {"outcome": "aggregated", "reason": None, "participants": 3, "loss": 0.5, "train_loss": 0.4}
OF_ROUND |= {"train_s": 0.5, "aggregate_s": 0.25, "missing": (), "clipped": 0, "phases": {}}
OF_RUN = {"rounds": 2, "aggregated": 2, "fallbacks": 0, "seconds": 3.0, "task": "digits", "key": "cd" * 32}
OF_RUN |= {"finished": True, "offers": 2, "dropped": {}, "privacy": None, "sums": SUMS.facts}
RECORD, SUMMARY = Record(round=1, **OF_ROUND, **OF_BOTH), Summary(**OF_RUN, **OF_BOTH)
OF_ALL = SwarmFigure("accuracy", 0.85, 0.6, None, 0.8, 540, 3, 4)
PRIVATE = replace(RECORD, epsilon=1.23456, delta=1e-5)
SPENT = {"outcome": "fallback", "reason": str(Reason.BUDGET_SPENT), "participants": 0}
FOLLOWED = replace(PRIVATE, **SPENT, train_loss=None)
LEDGER = facts(LDP, Ledger.of(LDP.per_offer))


def told_of(**changed) -> str:
    return round_text(replace(RECORD, **changed), 20)


def test_a_round_says_what_is_spent_so_far_where_there_is_privacy():
    assert round_text(RECORD, 20) == (
        "round 1/20: aggregated with 3 peers; test accuracy 90.0 % (largest class 10.0 %); "
        "train 0.50 s, aggregate 0.25 s"
    )
    good = "test accuracy 90.0 % (largest class 10.0 %)"
    assert f"; {good}; epsilon 1.235 spent; train" in round_text(PRIVATE, 20)
    nothing_yet = replace(PRIVATE, epsilon=0.0, outcome="fallback", reason="group-timeout", participants=0)
    assert f"own update kept (group-timeout); {good}; epsilon 0.000 spent" in round_text(nothing_yet, 20)
    unbound = replace(PRIVATE, epsilon=None, delta=1e-5)
    assert f"; {good}; NO BOUND on what is spent; train" in round_text(unbound, 20)


def test_a_round_of_steps_says_how_many_failed_and_what_is_left_if_all_collude():
    steps = replace(PRIVATE, steps=10, epsilon_alone=4.5678)
    told = round_text(steps, 20)
    assert "round 1/20: aggregated with 3 peers, 10 steps; " in told
    assert "; epsilon 1.235 spent (4.57 if all others work together); train" in told
    failed = replace(steps, steps_failed=2, missing=("abcdef0123456789",))
    assert "3 peers, 10 steps and 2 more failed, missing abcdef01; " in round_text(failed, 20)
    assert "10 steps and 2 more failed; " in round_text(replace(failed, missing=()), 20)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "3 members"),
        ({"steps_failed": 1, "missing": ("ab" * 8,)}, "3 members, after 1 sum that failed, missing abababab"),
        ({"reason": "group-timeout", "alone": 2}, "it did not come (group-timeout), 2 times in a row"),
        (
            {"reason": "late-member"},
            "made by the others; this node came after the first sum, and",
        ),
    ],
)
def test_a_sum_of_a_job_says_what_it_was_for_and_how_it_ended(changed, told):
    text = told_of(purpose="cells", sum_number=4, **changed)
    assert text.startswith(f"sum 4 (cells): {told}")
    assert text.endswith("; nothing is learned yet; own rows 0.50 s, together 0.25 s")
    assert table_of(replace(RECORD, purpose="cells", **changed))[0][0] == "sum"


def test_a_job_ends_after_its_sums_and_who_came_late_is_told_what_that_means():
    assert summary_text(SUMMARY, exact=True).startswith(f"finished after {SUMMARY.generation} sum")
    made = replace(SUMMARY, finished=False, made="curves alone", metrics={"accuracy": 0.9, "auc": 0.75})
    text = summary_text(made, exact=True)
    assert text.startswith("stopped unfinished after 0 sums: curves alone; ")
    assert "AUC 0.750" in text
    assert "; nothing is learned yet; " in summary_text(replace(made, only_class="no"), exact=True)
    late = replace(SUMMARY, aggregated=0, fallbacks=3, generation=3)
    assert "its own count from the next job on" in alone_text(late, exact=True)
    live = on_terminal(110)
    now = Snapshot("ward", 3, 12, "following", (), None, "", purpose="curves")
    live._console.print(live._panel(now))
    shown = live._console.file.getvalue()
    assert "sum 4 (curves): following the others (this node came after the first sum)" in shown


def test_a_skewed_task_is_told_by_auc_a_constant_model_by_name_and_numbers_are_never_called_accurate():
    metrics = {"accuracy": 0.985, "balanced-accuracy": 0.5, "auc": 0.5123}
    skewed = {"metric": "auc", "value": 0.5123, "baseline": 0.5, "only_class": "no", "metrics": metrics}
    words = "test AUC 0.512 (guessing 0.500), balanced accuracy 50.0 %; the model says 'no' to every row"
    assert f"; {words}; train" in told_of(**skewed)
    assert "98.5" not in told_of(**skewed)
    assert f"; {words}; base" in summary_text(replace(SUMMARY, **skewed))
    numbers = {"metric": "r2", "value": 0.4, "baseline": 0.0, "metrics": {"r2": 0.4, "mae": 12.25}}
    record = replace(RECORD, accuracy=None, **numbers)
    assert "; test R2 0.400 (the mean 0.000), MAE 12.25; train" in round_text(record, 20)
    assert "accuracy" not in round_text(record, 20)
    assert json.loads(json.dumps(record.as_json()))["accuracy"] is None


def test_what_is_wrong_with_a_model_stands_in_the_last_line_alone():
    flaws = ("it never says 'dead', which some rows have", "worse than guessing")
    told = summary_text(replace(SUMMARY, flaws=flaws))
    assert told == summary_text(SUMMARY).replace("; base", f"; {'; '.join(flaws)}; base")
    assert "never" not in told_of(flaws=flaws)
    assert json.loads(json.dumps(replace(RECORD, flaws=flaws).as_json()))["flaws"] == list(flaws)


ALONE = Alone("accuracy", 0.81234, 1.0)


def test_the_last_line_has_the_model_of_the_rows_alone_and_what_a_constant_reaches():
    told = summary_text(replace(SUMMARY, alone=ALONE), OwnFigures(ALONE))
    words = "90.0 % together, 81.2 % alone, 10.0 % by always saying the most frequent class"
    assert f"; test accuracy {words}; base" in told
    early = summary_text(replace(SUMMARY, alone=replace(ALONE, trained=0.254)))
    assert "90.0 % together, 81.2 % alone after 25 % of the training, 10.0 % by" in early
    numbers = {"metric": "r2", "value": 0.4, "baseline": 0.0, "metrics": {"r2": 0.4, "mae": 12.25}}
    told = summary_text(replace(SUMMARY, **numbers, alone=Alone("r2", -0.1, 1.0)))
    assert "; test R2 0.400 together, -0.100 alone, 0.000 by always saying the mean, MAE 12.25; base" in told


def test_with_privacy_the_last_line_alone_has_it_with_a_mark():
    ended = events.Finished(SUMMARY, OwnFigures(ALONE, secret=True))
    words = "90.0 % together, 81.2 % alone, 10.0 % by always saying the most frequent class"
    (told,) = event_texts(ended)
    assert f"; test accuracy {words} (alone: not covered by epsilon: do not pass on); base" in told
    assert "0.81" not in json.dumps(event_values(ended))
    assert event_values(events.Finished(replace(SUMMARY, alone=ALONE)))["alone"] == {
        "metric": "accuracy",
        "value": 0.81234,
        "trained": 1.0,
    }


def test_the_journal_of_a_service_has_no_secret_figure(tmp_path):
    secret = events.Finished(SUMMARY, OwnFigures(ALONE, secret=True))
    assert "81.2 % alone" in event_texts(secret)[0]
    assert open_texts(secret) == event_texts(events.Finished(SUMMARY))
    assert open_texts(events.Warned("a")) == ("warning: a",)
    with (tmp_path / "out").open("w") as file:
        found = os.fstat(file.fileno())
        assert is_journal(file, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"})
        assert not is_journal(file, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"})
        assert not is_journal(file, {})
        assert not is_journal(io.StringIO(), {})


def test_a_round_with_a_metric_of_all_shows_it_beside_mine():
    shown = replace(RECORD, swarm=OF_ALL)
    told = "all 540 rows of 3 peers (generation 4): accuracy 85.0 % (largest class 60.0 %), mine 80.0 %"
    assert round_text(shown, 20) == round_text(RECORD, 20).replace("; train", f"; {told}; train")
    last = summary_text(replace(SUMMARY, swarm=OF_ALL))
    assert last == summary_text(SUMMARY).replace("; base", f"; {told}; base")
    assert "mine" not in told_of(swarm=replace(OF_ALL, mine=None))
    assert shown.as_json()["swarm"] == asdict(OF_ALL)
    assert RECORD.as_json()["swarm"] is None


def test_a_round_says_that_it_was_rolled_back_followed_or_made_without_electors_that_are_gone_for_good():
    plain = round_text(RECORD, 20)
    assert told_of(rolled_back=(0.1, 2.5)) == plain.replace(" peers; ", " peers; rolled back; ")
    words = "aggregated with 3 peers, WITHOUT 10.0.0.3:1, a1b2c3d4 (gone for good); "
    assert told_of(without=("10.0.0.3:1", "a1b2c3d4")) == plain.replace("aggregated with 3 peers; ", words)
    told = round_text(FOLLOWED, 20)
    assert "round 1/20: offered nothing (the privacy budget is spent), followed the others; " in told
    assert "own update" not in told


def on_terminal(width: int) -> LiveView:
    live = LiveView()
    live._console = Console(file=io.StringIO(), width=width)
    return live


@pytest.mark.parametrize("waiting", ["", "waiting for 10.0.0.3:1, who made the last model"])
def test_the_panel_says_why_no_group_forms(waiting):
    live = on_terminal(110)
    now = Snapshot("digits", 3, 9, "group", waiting_for=(), left_s=None, waiting=waiting)
    live._console.print(live._panel(now))
    shown = live._console.file.getvalue()
    assert ("waiting for" in shown) == bool(waiting)
    assert waiting in shown
    assert "round 4 of 9: looking for a group" in shown


def test_the_summary_has_the_ledger_in_a_line_of_its_own():
    assert "\n" not in summary_text(SUMMARY)
    first, ledger = summary_text(replace(SUMMARY, privacy=LEDGER)).splitlines()
    assert first == summary_text(SUMMARY)
    assert ledger.startswith("privacy spent: epsilon 1.3")
    assert " of 2 at delta 1e-05 (" in ledger
    assert ledger.endswith("remain), for one node's whole data set, over the run (replace)")


def test_programs_get_the_figures_and_a_person_without_a_terminal_reads_the_same_lines():
    out, text = io.StringIO(), io.StringIO()
    for observer in (JsonOutput(out), TextOutput(text)):
        observer.handle(events.RoundEnded(FOLLOWED, 2))
        observer.handle(events.Finished(replace(SUMMARY, epsilon=1.3, delta=1e-5, privacy=LEDGER)))
    round_, finished = (json.loads(line) for line in out.getvalue().splitlines())
    assert (round_["reason"], round_["epsilon"], round_["train_loss"]) == ("budget-spent", 1.23456, None)
    assert (finished["privacy"], finished["epsilon"]) == (LEDGER, 1.3)
    assert (finished["sums"]["members"], finished["sums"]["dropouts"]) == (10, 2)
    first, *_, last = text.getvalue().splitlines()
    assert first == round_text(FOLLOWED, 2)
    assert last.startswith("privacy spent")


@pytest.mark.parametrize(
    ("aggregated", "generation", "told"),
    [
        (0, 0, "you trained alone: 0 of 20 rounds were aggregated; start the nodes together, or"),
        (0, 4, "0 of 20 rounds were aggregated with you: the model is the work of others"),
        (1, 1, ""),
    ],
)
def test_the_last_line_of_a_run_alone_says_so_loudly(aggregated, generation, told):
    ended = replace(SUMMARY, aggregated=aggregated, fallbacks=20 - aggregated, generation=generation)
    out, live = io.StringIO(), on_terminal(160)
    for observer in (TextOutput(out), live):
        observer.handle(events.Finished(replace(ended, privacy=LEDGER)))
    for shown in (out, live._console.file):
        last = shown.getvalue().splitlines()[-1]
        assert last.startswith(f"warning: {told}") if told else last.startswith("privacy spent")
    assert alone_text(replace(SUMMARY, aggregated=0, fallbacks=0)) == ""


def test_each_event_has_its_words():
    out = io.StringIO()
    observer = TextOutput(out)
    for event in (
        events.Started({"task": "digits", "page": "http://h:1/#token=secret"}),
        events.RoundStarted(1),
        events.Noticed(Notice(Note.JOINED, "127.0.0.1:1", "12345678"), "a"),
        events.Warned("b"),
        events.CaughtUp(base(4), "c"),
        events.RoundEnded(RECORD, 20),
        events.Finished(SUMMARY),
    ):
        observer.handle(event)
    assert out.getvalue().splitlines() == [
        "task: digits",
        "page: http://h:1/#token=secret",
        "a",
        "warning: b",
        "caught up: base of generation 4, c",
        round_text(RECORD, 20),
        summary_text(SUMMARY),
    ]


def test_what_a_group_of_another_size_withstands_is_told_in_words_and_figures():
    plain, program, live = io.StringIO(), io.StringIO(), on_terminal(160)
    for observer in (TextOutput(plain), JsonOutput(program), live):
        observer.handle(events.GroupResized(SUMS))
    told = "tolerates 2 dropouts; 6 of 10 peers would have to collude"
    assert plain.getvalue() == f"sums: {SUMS.text}\n"
    assert json.loads(program.getvalue()) == {"event": "sums", "text": SUMS.text, **SUMS.facts}
    for out in (plain, program, live._console.file):
        assert told in out.getvalue()


def test_an_address_on_a_terminal_can_be_copied_whole():
    live, url = on_terminal(40), "http://10.0.0.7:9001/#token=" + "ab" * 32
    live.handle(events.Started({"page": url}))
    assert live._console.file.getvalue() == f"page: {url}\n"


async def test_the_live_view_is_redrawn_until_it_is_cancelled():
    live, looked = on_terminal(110), asyncio.Event()
    live.handle(events.RoundEnded(RECORD, 9))

    async def take():
        looked.set()
        return Snapshot("digits", 1, 9, "group", waiting_for=(), left_s=4.0, waiting="")

    showing = asyncio.create_task(live.show(take))
    await looked.wait()
    await asyncio.sleep(0)
    showing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await showing
    assert "aggregated" in live._console.file.getvalue(), "the rounds so far stay when it ends"


def table_of(*records: Record) -> list[list[str]]:
    """Returns the live view's table by words."""
    live = on_terminal(160)
    for record in records:
        live.handle(events.RoundEnded(record, 20))
    live._console.print(live._table())
    return [line.split() for line in live._console.file.getvalue().splitlines()]


def test_the_live_view_has_columns_for_epsilon_collusion_and_all_rows_only_where_there_is_something():
    (heading, _) = table_of(RECORD)
    assert heading[-2:] == ["kB", "sent"]
    assert "accuracy" in heading
    assert "mine" not in heading
    heading, *lines = table_of(PRIVATE, FOLLOWED)
    assert heading[-2:] == ["epsilon", "spent"]
    assert [line[-1] for line in lines] == ["1.235", "1.235"]
    heading, line = table_of(replace(PRIVATE, epsilon_alone=4.5678))
    assert heading[-5:] == ["epsilon", "spent", "if", "all", "collude"]
    assert line[-2:] == ["1.235", "4.57"]
    heading, first, second = map(" ".join, table_of(RECORD, replace(RECORD, swarm=OF_ALL, only_class="no")))
    assert "all, mine" in heading
    assert "85.0 %" not in first
    assert "85.0 %, 80.0 %" in second
    assert "90.0 % (only 'no')" in second


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (RECORD, "aggregated"),
        (replace(RECORD, reason="sums-timeout"), "own: sums-timeout"),
        (FOLLOWED, "followed: budget-spent"),
        (replace(RECORD, rolled_back=(0.1, None)), "rolled back"),
        (replace(RECORD, without=("10.0.0.3:1", "a1b2c3d4")), "aggregated without 2 electors"),
    ],
)
def test_the_live_view_tells_how_a_round_ended(record, told):
    assert told in " ".join(table_of(record)[1])
