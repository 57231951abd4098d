"""An agreement's node before it meets others: what it sums, when it ends, what it refuses."""

import json
import re
import tomllib
from functools import partial
from pathlib import Path

import pytest

from node.agree import __main__ as agree
from node.agree.run import prepare_agreement, save
from node.app.run import prepare
from node.init import __main__ as init
from node.options import parse_arguments
from node.system.errors import ConfigError
from node.task.parameters import describe_difference
from tests.own_data import told, ward
from tests.unit.node.cases import cases

PEERS = ("--peers", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
ROWS = ("--data", "ward.csv", *PEERS)


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Makes a folder with ward.csv, and a task with ranges for it."""
    monkeypatch.chdir(tmp_path)
    Path("ward.csv").write_text(ward(400))
    assert (
        init.main(
            ["--data", "ward.csv", "--target", "outcome", "--agree", "--epsilon", "20", "--out", "ward.toml"]
        )
        == 0
    )
    capsys.readouterr()
    return tmp_path


def options(*more: str):
    return parse_arguments(["--task", "ward.toml", *ROWS, *more])


def test_what_init_writes_tells_ranges_and_no_mean(owner):
    table = tomllib.loads(Path("ward.toml").read_text())
    (age,) = (column for column in table["data"]["schema"]["columns"] if column["name"] == "age")
    assert age == {"name": "age", "kind": "number", "mean": 50.0, "std": 17.0, "low": 20.0, "high": 80.0}
    assert table["agreement"] == {"share": 0.1, "records": 10_000, "least_records": 10}
    text = Path("ward.toml").read_text()
    assert "# - ranges of numbers and dates, outward to one digit" in text
    assert "#   python -m node.agree FILE.toml" in text
    assert prepare(options()).learning.offered > 0, "it can be learned with as it is"


def test_the_own_file_is_read_as_cells_say_and_peers_need_not_know(owner):
    def sums(prepared):
        job = prepared.learning.job
        return job.contribution(job.initial(), 0).words.tolist()

    exact = ("--set", "privacy.mechanism=none")
    as_all = prepare_agreement(options(*exact))
    Path("ward.csv").write_text(re.sub(r"2026-01-(\d\d)", r"\1/01/2026", ward(400)))
    own = prepare_agreement(options(*exact, "--cells", "dates=day-first"))
    assert (sums(own), own.plan.parameters) == (sums(as_all), as_all.plan.parameters)


def test_it_is_over_with_the_first_base_that_is_agreed_on(owner):
    prepared = prepare_agreement(options("--rounds", "7"))
    assert (prepared.plan.sums, prepared.plan.tries) == (1, 7), "so many rounds without an agreement end it"


@pytest.mark.parametrize(
    "change", ["train.rounds=7", "privacy.epsilon=3", "agreement.least_records=11", "agreement.share=0.2"]
)
def test_peers_of_an_agreement_must_have_the_whole_task_in_common(owner, change):
    mine, theirs = prepare_agreement(options()), prepare_agreement(options("--set", change))
    assert change.partition("=")[0] in describe_difference(mine.plan.parameters, theirs.plan.parameters)


def test_what_peers_of_an_agreement_need_not_have_in_common_is_no_parameter(owner):
    mine = prepare_agreement(options())
    assert mine.plan.parameters == prepare_agreement(options("--set", "train.threads=1")).plan.parameters
    assert json.loads(mine.plan.parameters) != json.loads(prepare(options()).plan.parameters), (
        "and none that learns"
    )
    for change in ("agreement.leave_out_missing=true", "agreement.classes=['moved']"):
        theirs = prepare_agreement(options("--set", change))
        told_difference = describe_difference(mine.plan.parameters, theirs.plan.parameters)
        assert told_difference.startswith(f"{change.partition('=')[0]} is absent here and ")
    told_of = json.loads(mine.plan.parameters)["agreement"]
    assert not {"leave_out_missing", "classes"} & set(told_of), "peers of before have no such keys"


def test_budget_and_noise_are_those_of_the_share(owner):
    private = prepare_agreement(options("--set", "privacy.epsilon=4", "--set", "agreement.share=0.25"))
    assert private.learning.mechanism.guarantee.epsilon == 1.0
    assert (private.plan.sums, private.plan.rounds) == (1, 1)
    plain = prepare_agreement(options("--set", "privacy.mechanism=none"))
    assert plain.learning.mechanism.guarantee is None
    weighted = ("aggregation.weighting=samples", "aggregation.sample_cap=10", "privacy.mechanism=none")
    sets = [part for one in weighted for part in ("--set", one)]
    prepared = prepare_agreement(options(*sets))
    assert prepared.learning.offered == plain.learning.offered, "sums are not weighed"


def test_with_shared_noise_each_peer_s_sums_have_noise_of_their_own(owner):
    argv = ["--data", "ward.csv", "--target", "outcome", "--agree", "--peers", "5", "--epsilon", "4"]
    assert init.main([*argv, "--out", "shared.toml"]) == 0
    shared = parse_arguments(["--task", "shared.toml", *ROWS])
    prepared = prepare_agreement(shared)
    assert prepared.learning.mechanism.guarantee.epsilon == pytest.approx(0.4)
    assert prepared.learning.mechanism.guarantee.honest is None
    assert prepared.options.task.step_plan is None, "it is one round, not a run of steps"
    assert '"honest":2' in prepared.plan.parameters, "all agree on the whole task"


def test_a_lacking_column_needs_more_records_than_noise(owner):
    leaving = ("--set", "agreement.leave_out_missing=true")
    table = Path("ward.csv").read_text().splitlines()
    cells = [line.split(",") for line in table]
    Path("ward.csv").write_text("\n".join(",".join(line[:3] + line[4:]) for line in cells))
    assert "has no column 'smoker'" in told(prepare_agreement, options())
    prepared = prepare_agreement(options(*leaving))
    without_noise = prepare_agreement(options("--set", "privacy.mechanism=none", *leaving))
    assert prepared.learning.offered == without_noise.learning.offered
    quiet = ("--set", "privacy.epsilon=0.01", *leaving)
    line = told(prepare_agreement, options(*quiet))
    words = "agreement.records = 10000 is refused with agreement.leave_out_missing: noise could"
    assert line.startswith(words)
    least = line.partition("allowed: ")[2].split()[0]
    assert prepare_agreement(options("--set", f"agreement.records={least}", *quiet)).learning.offered


def test_the_command_writes_what_it_says_into_the_task(owner):
    flags = ("--leave-out-missing", "--also-class", "moved", '--also-class=say "x"')
    asked = agree.main.read(["ward.toml", "--data", "none.csv", *flags, *PEERS])
    assert asked.task.agreement.leave_out_missing
    assert asked.task.agreement.classes == ("moved", 'say "x"')
    assert asked.write == Path("ward-agreed.toml")


def test_how_precise_the_sums_will_be_is_said_before_anything_is_spent(owner):
    said = {
        epsilon: prepare_agreement(options("--set", f"privacy.epsilon={epsilon}")).about.notes["precision"]
        for epsilon in (1, 10, 200)
    }
    assert re.fullmatch(r"each sum is off by about \d+ rows, which drowns 3 peers of 400 rows: .*", said[1])
    assert re.fullmatch(r"each sum is off by about \d+ rows", said[10]), "of 400 it would be too much"
    assert re.fullmatch(r"each sum is off by about \d rows", said[200])
    assert "precision" not in prepare_agreement(options("--set", "privacy.mechanism=none")).about.notes


def test_all_named_peers_are_waited_for_but_those_that_all_leave_out(owner):
    def least(*without, more=()):
        return prepare_agreement(options(*more), without=without).options.task.aggregation.min_participants

    four = ("--peers", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4")
    assert (least(), least(more=four), least("127.0.0.1:4", more=four)) == (3, 4, 3)
    assert least(more=(*four, "--listen", "127.0.0.1:5")) == 5
    assert prepare_agreement(options()).options.task.aggregation.dropouts == 0
    listening = (*four, "--listen", "127.0.0.1:1")
    for without, more, words in (
        (("127.0.0.1:9",), four, "--without '127.0.0.1:9' is refused; allowed: another peer as --peers or"),
        (("127.0.0.1:1",), listening, "--without '127.0.0.1:1' is refused; allowed: another"),
        (("127.0.0.1:1", "127.0.0.1:2"), four, "--without leaves 2 of 4 peers; allowed: at least 3, for"),
    ):
        refused = partial(prepare_agreement, without=without)
        assert told(refused, options(*more)).startswith(words)


def test_what_is_refused(owner):
    assert told(prepare_agreement, options("--set", "privacy.mechanism=ldp")) == (
        "privacy.mechanism = 'ldp' does not go with node.agree: it covers a whole data set, and sums with "
        "noise for one row would not; allowed: 'dp-sgd', 'distributed-dp-sgd' or 'none', or learn with the "
        "public ranges as they are"
    )
    assert told(prepare_agreement, options("--set", "agreement.records=399")).endswith(
        "has 400 rows; allowed by agreement.records: at most 399; raise it at all peers"
    )
    for argv in ([], ["--set", "data.source=ward.csv", "--shard", "0/2"]):
        without = parse_arguments(["--task", "ward.toml", *PEERS, *argv])
        needs = "node.agree needs a file of this node's own rows; allowed: --data PATH, without --shard"
        assert told(prepare_agreement, without) == needs
    assert told(prepare_agreement, parse_arguments([*PEERS, "--data", "ward.csv"])) == (
        "task 'digits' has no data.schema, so there is nothing to agree on; python -m node.init --agree "
        "writes one"
    )
    assert told(save, Path("no/where.toml"), Path("ward.toml").read_text()) == (
        "--write 'no/where.toml' cannot be written: No such file or directory"
    )


@cases("""
    argv => line
    --data x.csv => --data is refused: the task comes first; --help shows more
    ward.toml PEERS --write ward.txt => --write 'ward.txt' is refused; allowed: a FILE.toml
    ward.toml PEERS --write= => --write '' is refused; allowed: a path
    ward.toml PEERS --write=ward.toml => --write 'ward.toml' exists already; give another, or --force to
        replace it
    ward.toml --write ward.toml --force => neither is given: --peers HOST:PORT,...
    ward.toml ROWS --also-class ill => agreement.classes = ['ill'] is refused: 'ill' is
    ward.toml ROWS --again => --again is refused: an agreement is one sum, of which nothing is
    ward.toml ROWS --also-class= => --also-class: agreement.classes = [''] is refused
    none.toml PEERS => task file 'none.toml' cannot be read: No such file or directory
    ward.toml --data none.csv PEERS => data file 'none.csv' cannot be read
""")
def test_what_the_command_refuses(owner, one_line, argv, line):
    argv = argv.replace("ROWS", " ".join(ROWS)).replace("PEERS", " ".join(PEERS)).split()
    assert one_line(agree.main, argv).startswith(f"error: {line}")


def test_usage_and_an_agreed_task_that_is_none_which_is_not_written(capsys, tmp_path):
    assert agree.main(["--help"]) == 0
    assert agree.main([]) == 2
    assert "usage: python -m node.agree TASK" in capsys.readouterr().out
    with pytest.raises(ConfigError):
        save(tmp_path / "agreed.toml", "[task]\n")
    assert not (tmp_path / "agreed.toml").exists()
