"""A node of statistics before it meets others: what it computes and shares, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mechanisms.accounting.ledger import Ledger, privacy_spent
from node.app.jobs import JobEnd
from node.app.run import prepare
from node.app.start_checks import existing_key
from node.jobs.cohort import Cohort
from node.jobs.statistics.counts import SUMS
from node.jobs.statistics.private import PrivateStatistics
from node.options import parse_arguments
from node.runtime.record.ending import Alone, End
from node.stats import __main__ as command
from node.stats.run import conclude, prepare_statistics, save
from node.storage.key_file import write_key
from node.system.errors import ConfigError
from node.task.parameters import describe_difference
from protocol.wire.messages import Base
from tests.statistics_rows import FOLDER, trial

PEERS = ("--peers", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
NONE = tuple(f"statistics.{part}=[]" for part in ("models", "survival", "tables"))
PRIVATE = ("privacy.mechanism=dp-sgd", "privacy.epsilon=4", "statistics.share=0.5", *NONE)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trial.toml").write_text(trial())


def options(*changes, data=FOLDER / "rows.csv"):
    more = [word for change in changes for word in ("--set", change)]
    return parse_arguments(["--task", "trial.toml", "--data", str(data), *PEERS, *more])


def refused(*changes, **more):
    with pytest.raises(ConfigError) as caught:
        prepare_statistics(options(*changes, **more))
    return str(caught.value)


def test_without_privacy_all_that_is_asked_is_one_job_of_the_same_members():
    prepared, work = prepare_statistics(options())
    assert isinstance(work.job, Cohort)
    assert prepared.learning.offered == max(work.job.words(generation) for generation in range(work.sums))
    assert prepared.about.data == "rows.csv: 480 rows"
    assert "the program of each member sees them" in prepared.about.notes["privacy"]


def test_the_report_alone_has_this_member_s_column_and_all_have_those_that_all_show(tmp_path):
    given = options("statistics.per_site=true", "statistics.models=[]", "statistics.survival=[]")
    with pytest.raises(ConfigError, match="needs this node's key before it starts"):
        prepare_statistics(given)
    write_key(tmp_path / "node.key", bytes(32))
    given = replace(given, key=tmp_path / "node.key", names=tmp_path / "names")
    key = existing_key(given).public
    given.names.write_text(f"ward = {key.hex()}\n")
    prepared, work = prepare_statistics(given)
    assert "each member's own counts" in prepared.about.notes["sites"]
    vector = work.job.initial()
    for generation in range(SUMS):
        words = work.job.contribution(vector, generation).words
        vector = work.job.following(vector, generation, words, (key,))
    end = JobEnd(0, Base(SUMS, bytes(32), 1, bytes(32)), vector)
    assert conclude(given, work, end, tmp_path / "r.html") == 0
    told = json.loads((tmp_path / "r.json").read_text())
    ((name, rows),) = [(site["name"], site["rows"]) for site in told["sites"]]
    assert (name, rows) == ("ward", 480)
    head, first, *_ = (tmp_path / "r-table1.csv").read_text().splitlines()
    assert head == ",level,missing,Overall,A,B,C,ward,p-value,SMD"
    assert first == "n,,,480,206,161,113,480,,"
    html = (tmp_path / "r.html").read_text()
    assert html.index(">C</th>") < html.index(">mine</th>") < html.index(">ward</th>")
    assert "<i>mine</i>" in html


def test_nearly_the_same_rows_are_warned_of_once_their_totals_were_opened(tmp_path):
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("".join((FOLDER / "rows.csv").read_text().splitlines(keepends=True)[:-2]))
    given = [*PEERS, "--task", "trial.toml", "--key", str(tmp_path / "node.key"), "--data"]
    for opened, data, is_said in ((0, "", False), (1, "", False), (0, fewer, True), (0, "", False)):
        _, work = prepare_statistics(parse_arguments([*given, str(data or FOLDER / "rows.csv")]))
        assert ("all but about 2 rows of these" in work.notes.get("rows", "")) == is_said
        work.opened() if opened else None


def test_with_privacy_the_share_of_the_budget_pays_for_one_release():
    prepared, work = prepare_statistics(options(*PRIVATE))
    assert isinstance(work.job, PrivateStatistics)
    (event,) = work.job.cost(0)
    assert privacy_spent(Ledger.of([event, event]), 0.5e-5).epsilon <= 2.0 * (1 + 1e-9), "two tries"
    assert (prepared.learning.mechanism.guarantee.epsilon, prepared.plan.sums) == (2.0, 1)
    first, again = (work.job.contribution(work.job.initial(), 0).words for _ in range(2))
    assert not np.array_equal(first, again), "each offer has new noise"


def test_members_must_ask_for_the_same_and_learners_need_not():
    mine, theirs = prepare_statistics(options())[0], prepare_statistics(options("statistics.by=sex"))[0]
    assert "statistics.by" in describe_difference(mine.plan.parameters, theirs.plan.parameters)
    learning = [
        prepare(options(change)).plan.parameters for change in ("statistics.by=sex", "statistics.by=arm")
    ]
    assert learning[0] == learning[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("privacy.mechanism=ldp",), "privacy.mechanism = 'ldp' does not go with statistics"),
        (
            ("privacy.mechanism=dp-sgd",),
            "statistics.tables is refused with privacy: table one alone is noised",
        ),
        (
            (*PRIVATE, "statistics.records=50000000", "privacy.epsilon=4000"),
            "statistics: records = 50000000 is not allowed",
        ),
    ],
)
def test_what_is_refused(changes, words):
    assert words in refused(*changes)


DATA = {"trial.toml": (), "digits": ("--data", str(FOLDER / "rows.csv"))}


def test_rows_are_a_file_s_and_a_table_s():
    words = {"trial.toml": "statistics need a file of this node's own rows", "digits": "has no data.schema"}
    for task, said in words.items():
        with pytest.raises(ConfigError, match=said):
            prepare_statistics(parse_arguments(["--task", task, *PEERS, *DATA[task]]))


def test_the_report_and_what_stands_beside_it(tmp_path):
    work = prepare_statistics(options(*PRIVATE))[1]
    job = work.job
    base = job.following(job.initial(), 0, job.contribution(job.initial(), 0).words, (b"a",))
    files = save(work.shown_by(base, 1), "made here", tmp_path / "r.html")
    assert [path.name for path in files] == ["r.html", "r.json", "r-table1.csv"]
    assert json.loads(files[1].read_text())["members"] == 1
    assert files[2].read_text().startswith(",level,missing,Overall,A,B,C")
    with pytest.raises(ConfigError, match="cannot be written"):
        save(work.shown_by(base, 1), "", tmp_path / "none" / "r.html")


@pytest.mark.parametrize(("sums", "written"), [(SUMS - 1, 0), (SUMS, 3)])
def test_a_job_that_lost_a_member_keeps_table_one_and_the_models_that_are_done(sums, written, tmp_path):
    given = options("privacy.mechanism=none")
    _, work = prepare_statistics(given)
    vector = work.job.initial()
    for generation in range(sums):
        words = work.job.contribution(vector, generation).words
        vector = work.job.following(vector, generation, words, (b"a",))
    stopped = Alone(End.UNFINISHED, "C did not come", "", "")
    end = JobEnd(1, Base(sums, bytes(32), 3, bytes(32)), vector, stopped)
    (tmp_path / "out").mkdir()
    with pytest.raises(Alone, match="C did not come"):
        conclude(given, work, end, tmp_path / "out" / "r.html")
    assert len(list((tmp_path / "out").iterdir())) == written
    if written:
        found = json.loads((tmp_path / "out" / "r.json").read_text())
        assert found["unfinished"] == "C did not come"
        assert found["models"][0]["reason"] == "left out: unfinished, as a member is gone"
        assert found["table_one"]["rows"][0] == 480
        assert "C did not come" in (tmp_path / "out" / "r.html").read_text()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("trial.toml", "--write", "r.pdf"), "--write 'r.pdf' is refused; allowed: a FILE.html"),
        (
            ("trial.toml", "--write", "old.html"),
            "--write 'old.html' exists already; give another, or --force",
        ),
        (("--data", "x.csv"), "--data is refused: the task comes first"),
    ],
)
def test_the_command_line(argv, words, tmp_path, one_line):
    (tmp_path / "old.html").touch()
    assert words in one_line(command.main, [*argv, "--data", str(FOLDER / "rows.csv"), *PEERS])
