import builtins
import json
import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from node.data.dataset import load_dataset
from node.data.sides import Split
from node.init.__main__ import main, parse_init
from node.init.proposal import Model, propose_model, propose_privacy, propose_shared, propose_training
from node.init.rate_search import candidates, searched_rate
from node.runtime.contributions.learning import make_tally
from node.system.errors import ConfigError
from node.task.load import load_task
from node.task.plain_defaults import plain_defaults
from node.task.step_defaults import step_defaults
from node.task.table_models import SAME_MEMBERS
from node.training.build import build_model
from tests.openings import after_opening
from tests.own_data import IMAGES, TABLE, picture, schema, told, toml, ward
from tests.unit.node.cases import cases

OPENED = "each member's computer sees exact totals of every pair of columns, and"


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward 7.csv").write_text(ward(300))
    return tmp_path / "ward 7.csv"


def run(capsys, *argv):
    """Runs node.init; returns (status, lines of standard output, lines of standard error)."""
    status = main(list(argv))
    said = capsys.readouterr()
    return status, after_opening(said.out).splitlines(), said.err.splitlines()


@pytest.fixture
def made(data, capsys):
    """Runs node.init on the data; returns the parsed file, its text, and the lines of standard output."""

    def run_it(*argv):
        status, lines, errors = run(capsys, "--data", str(data), "--force", *argv)
        assert (status, errors) == (0, [])
        path = data.parent / "task.toml"
        return toml(path), path.read_text(), lines

    return run_it


def loaded(data):
    """Returns the written task and its data set; a model can be built for it."""
    task = load_task("task.toml", [])
    dataset = load_dataset(task, data, None)
    build_model(task, dataset)
    return task, dataset


def test_a_task_that_runs_at_once(data, made):
    _, text, lines = made("--target", "outcome")
    assert lines[0] == "ward 7.csv: 300 rows, 4 columns as 6 features, target 'outcome', 1 column left out"
    assert "  id       left out              an identifier: a different number in every row" in lines
    task, dataset = loaded(data)
    said = (task.task.name, task.model.cls, task.privacy.mechanism)
    assert said == ("ward-7", "node.models:Linear", "dp-sgd")
    assert (dataset.classes, dataset.train_x.shape[1]) == (2, 6)
    written = text.splitlines()
    assert "# - means and spreads of numbers and dates, to two digits" in written
    assert "# - names of categories that 5 rows or more have" in written
    revealing = [
        line
        for line in written[written.index("[data.schema]") :]
        if any(word in line for word in ("values", "mean", "left out"))
    ]
    assert len(revealing) == 5
    assert all("# FROM YOUR DATA" in line for line in revealing)
    assert "ward 7.csv" not in text


def test_no_cell_of_a_column_that_is_left_out_and_no_rare_category_gets_into_the_file(data, made):
    rows = "".join(f"Ada,{row % 9},{'leper' if row == 3 else 'ab'[row % 2]},{row % 2}\n" for row in range(60))
    data.write_text("secret,age,c,y\n" + rows)
    _, text, lines = made()
    assert "  secret  left out              the same in every row that has a value: 'Ada'" in lines
    assert "# left out: secret    # FROM YOUR DATA" in text
    assert "Ada" not in text
    assert "leper" not in text


def test_names_that_toml_and_comments_must_quote(data, made):
    header = '"a ""b"" = \\ [x]","# c\x7f","e\ny"\n'
    words = ('"ü"""', "b")
    data.write_text(header + "".join(f"{row % 9},{words[row % 2]},{row % 2}\n" for row in range(40)))
    columns = made()[0]["data"]["schema"]["columns"]
    assert [column["name"] for column in columns] == ['a "b" = \\ [x]', "# c\x7f"]


@cases("""
    argv => key => value
    --privacy none => privacy.mechanism => "none"
    --epsilon 3 => privacy.epsilon => 3.0
    --rounds 7 => train.rounds => 7
    --name x => task.name => "x"
    --model mlp => model.class => "node.models:MLP"
    --dates month-first --missing k.A. --missing=-9 --separator comma => data.schema.dialect => {"decimal":
        "point", "dates": "month-first", "missing": ["k.A.", "-9"], "separator": "comma"}
    --months german => data.schema.dialect => {"decimal": "point", "months": "german"}
    --thousands apostrophe --encoding CP1250 => data.schema.dialect => {"decimal": "point", "thousands":
        "apostrophe", "encoding": "cp1250"}
    --target age => data.schema.target.kind => "number"
    --target age --target-kind classes => data.schema.target.kind => "classes"
    --privacy none --target outcome => train.metrics => ["accuracy", "balanced-accuracy", "auc"]
    --privacy none --target age => train.metrics => ["r2", "mae"]
""")
def test_what_is_asked_for_stands_in_the_file(data, made, argv, key, value):
    place, _, _ = made(*argv.split())
    for part in key.split("."):
        place = place[part]
    assert place == json.loads(value)
    loaded(data)


@cases("""
    argv => model
    --privacy none => Additive
    --privacy none --target age => Additive
    --privacy none --agree => Additive
    --privacy none --come-and-go yes => Linear
    --privacy none --model network => MLP
    --privacy none --target age --target-kind count => Linear
    --privacy dp-sgd => Linear
    --peers 3 => Linear
    --peers 10 => Additive
    --peers 10 --come-and-go yes => Additive
    --peers 3 --model additive => Additive
""")
def test_a_table_gets_an_additive_model_where_sums_of_all_can_make_it(data, made, argv, model):
    """With noise, of enough rows; without it, of the same members, whose totals are told to be open."""
    table, text, lines = made(*argv.split())
    assert table["model"]["class"] == f"node.models:{model}"
    is_exact = model == "Additive" and "none" in argv
    assert (set(table["train"]) == {"metrics"}) == is_exact
    assert ("args" in table["model"]) == (model != "Additive")
    for where in (text.replace("\n# ", " "), "\n".join(lines)):
        assert (OPENED in where and SAME_MEMBERS in where) == is_exact
    loaded(data)


@cases("""
    argv => line
    --privacy dp-sgd => --model additive is refused with --privacy dp-sgd, where each member trains alone;
        allowed: --peers from 3 on, which share the noise, or --privacy none
    --privacy none --come-and-go yes => --model additive is refused with --come-and-go yes: without privacy
        its sums are of the same members to the end; allowed: --come-and-go no, --model network, or --privacy
        distributed-dp-sgd
    --privacy none --search => --model additive is refused beside --search: it has no learning rate; leave
        that out
    --privacy none --rounds 3 => --rounds 3 has no effect with node.models:Additive without privacy, which
        needs no rounds; leave it out, or give --model network
    --privacy none --target age --target-kind count => --model additive is refused for a target that counts
        something; allowed: --target-kind number, or --model network
    --privacy none --data few.csv => --model additive is refused: it needs 48 rows to learn from here, three
        for each value of its columns, and has about 22; leave columns out (--leave-out), or give
        --model linear
    --data rows.npz --privacy none => --model additive is refused: the data are no table; leave it out
    --model trees --peers 3 => --model trees is refused with --privacy distributed-dp-sgd: trees have no
        noise; allowed: --model additive
    --model trees --privacy none --data tiny.csv => --model trees is refused: it needs 20 rows to learn from
        here and has about 18; give --model linear
""")
def test_where_a_model_of_sums_does_not_suit_one_line_says_why(data, capsys, argv, line):
    (data.parent / "few.csv").write_text(ward(40))
    (data.parent / "tiny.csv").write_text(ward(33))
    np.savez(data.parent / "rows.npz", x=np.arange(60.0).reshape(20, 3), y=np.arange(20) % 2)
    status, lines, errors = run(capsys, "--data", str(data), "--model", "additive", *argv.split())
    assert (status, lines, errors) == (2, [], [f"error: {line}"])


def test_trees_take_as_few_rows_as_their_sums_do(data, made):
    (data.parent / "few.csv").write_text(ward(40))
    table, _, _ = made("--privacy", "none", "--model", "trees", "--data", str(data.parent / "few.csv"))
    assert table["model"] == {"class": "node.models:Trees"}
    assert table["aggregation"] == {"swarm_metric": "scores"}


def rare(rows, share):
    """Makes a CSV in which a share of the rows, the oldest, say yes."""
    ages = np.random.default_rng(1).integers(20, 80, rows)
    places = np.argsort(np.argsort(ages, kind="stable"))
    words = np.where(places >= rows * (1 - share), "ja", "nein")
    return "age,sick\n" + "".join(f"{age},{word}\n" for age, word in zip(ages, words, strict=True))


def test_training_without_privacy_is_adam_from_the_table(made):
    train = made("--privacy", "none", "--model", "linear")[0]["train"]
    found = plain_defaults("node.models:Linear", 6, 240, 20)
    for name in ("optimizer", "learning_rate", "schedule", "batch_size", "epochs"):
        assert train[name] == getattr(found, name)
    assert train["loss"] == "auto"


def test_a_rare_class_gets_a_balanced_loss_that_is_marked(data, made):
    data.write_text(rare(400, 0.08))
    table, text, _ = made("--privacy", "none", "--peers", "3", "--model", "linear")
    assert table["train"]["loss"] == "balanced-softmax"
    assert table["train"]["loss_args"] == {"prior": [0.08, 0.92]}
    assert table["train"]["optimizer"] == "sgd", "of Adam a site without such rows steps as far as others"
    lines = text.splitlines()
    revealing = [line for line in lines if any(word in line for word in ("prior", "92%", "sgd"))]
    assert len(revealing) == 3
    assert all("# FROM YOUR DATA" in line for line in revealing)
    assert "# - the share of each class, to two digits" in lines
    loaded(data)


@pytest.mark.parametrize("privacy", [("dp-sgd",), ("distributed-dp-sgd", "--peers", "3")])
@pytest.mark.parametrize("agree", [(), ("--agree",)])
def test_with_privacy_no_share_of_a_class_gets_into_the_file(data, made, privacy, agree):
    """The same file for rows with one rare class and with another share of it."""
    texts = set()
    for share in (0.08, 0.3):
        data.write_text(rare(400, share))
        texts.add(made("--privacy", *privacy, *agree)[1])
    assert len(texts) == 1
    assert ('loss = "auto"    # node.agree replaces it if a class is rare' in texts.pop()) == bool(agree)


@cases("""
    argv => name
    => ward-7
    --out north.toml => north
    --out north.toml --name mine => mine
""")
def test_a_task_has_the_name_of_its_file_or_else_of_the_data(data, argv, name):
    assert parse_init(["--data", str(data), *argv.split()], asking=False).name == name


def test_an_agreement_that_the_noise_would_drown_is_not_proposed(data, made):
    rng = random.Random(1)
    names = [f"m{number}" for number in range(60)]
    rows = [[str(rng.randrange(100)) for _ in names] + [rng.choice(("ill", "well"))] for _ in range(300)]
    data.write_text("\n".join(map(",".join, [[*names, "outcome"], *rows])) + "\n")
    _, text, lines = made("--peers", "3", "--agree", "--epsilon", "3")
    (warning,) = (line for line in lines if line.startswith("warning: an agreement of 3 peers"))
    assert "would count about 900, give or take " in warning
    assert lines[-1].startswith("next: python -m node.check ")
    assert "#   python -m node --task FILE.toml" in text
    _, text, lines = made("--peers", "3", "--agree", "--epsilon", "1000")
    assert lines[-1].startswith("next, everybody: python -m node.agree ")
    assert "#   python -m node.agree FILE.toml" in text


def test_heavy_tails_get_a_robust_loss_unless_node_agree_is_to_choose(data, made):
    y = [100.5 + row % 7 for row in range(300)]
    y[17] = 1e6
    data.write_text("x,y\n" + "".join(f"{row % 7},{value}\n" for row, value in enumerate(y)))
    table, text, _ = made("--privacy", "none", "--model", "network")
    assert table["train"]["loss"] == "huber"
    assert "# - how far off the farthest targets are" in text
    assert made("--privacy", "none", "--agree", "--model", "network")[0]["train"]["loss"] == "auto"


@pytest.mark.parametrize(
    "argv", ["--privacy none", "--privacy none --agree", "--privacy dp-sgd", "--peers 3 --agree --epsilon 50"]
)
def test_a_count_gets_its_loss_whatever_the_privacy_and_no_number_says_why(data, made, argv):
    rng = np.random.default_rng(2)
    visits = rng.poisson(rng.gamma(0.5, 20.0, 600))
    data.write_text("x,visits\n" + "".join(f"{row % 7},{value}\n" for row, value in enumerate(visits)))
    table, text, lines = made(*argv.split())
    assert (table["train"]["loss"], table["train"]["metrics"]) == ("poisson", ["r2", "mae", "deviance"])
    assert table["data"]["schema"]["target"]["mean"] == 0.0
    assert "# - that the target counts something" in text
    (why, loss) = (
        line for line in text.splitlines() if "counts something   " in line or line.startswith("loss")
    )
    assert why.startswith(
        "# The target is whole numbers from 0 on, most of them small: it counts something    # FROM"
    )
    assert loss == 'loss = "poisson"    # FROM YOUR DATA'
    assert any(line.startswith("  visits  target, a count ") for line in lines)
    loaded(data)


def test_a_search_for_the_rate_is_marked_and_needs_no_privacy(data, made, capsys):
    table, text, _ = made("--privacy", "none", "--search")
    (line,) = (line for line in text.splitlines() if line.startswith("learning_rate"))
    assert line.endswith("# FROM YOUR DATA: the best of three on rows held back")
    assert table["train"]["learning_rate"] in (0.01, 0.03, 0.09)
    status, _, errors = run(capsys, "--data", str(data), "--search", "--force")
    assert (status, errors[0][:40]) == (2, "error: --search is refused with --privac")


def test_a_search_leaves_a_rate_that_diverges_and_keeps_one_that_is_as_good(data, made):
    made("--privacy", "none", "--model", "linear")
    task, _ = loaded(data)
    dataset = load_dataset(task, data, None, Split.BEFORE)  # by label: which rate is better is no chance
    assert candidates(0.03) == (0.01, 0.03, 0.09)
    for rate, found in ((1e-3, 3e-3), (1e-9, 1e-9), (30.0, 10.0)):  # short steps, none learns, it diverges
        train = replace(task.train, optimizer="adam", learning_rate=rate)
        assert searched_rate(replace(task, train=train), dataset) == found


@cases("""
    argv => kind
    --target outcome --privacy none => scores
    --target age --privacy none => sums
    --target age --target-kind classes --privacy none => sums
    --target outcome =>
""")
def test_without_privacy_the_file_has_a_metric_of_all(data, made, argv, kind):
    """It fits the targets, comes at least once in a run, and is absent with privacy."""
    table, _, _ = made(*argv.split(), "--rounds", "3", "--model", "network")
    assert table.get("aggregation", {}).get("swarm_metric", "") == kind
    task, dataset = loaded(data)
    assert task.aggregation.swarm_metric_every == (3 if kind else 5)
    if kind:
        make_tally(kind, dataset, has_schema=True)


def test_images_and_arrays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in range(5):
        picture(tmp_path / "scans" / "ill" / f"{number}.png", (255, 0, 0), (200, 100))
        picture(tmp_path / "scans" / "well" / f"{number}.png", (0, 0, 255), (200, 100))
    assert run(capsys, "--data", "scans")[0] == 0
    task = load_task("task.toml", [])
    assert (task.model.cls, task.data.schema.shape) == ("node.models:ConvNet", (3, 32, 64))
    np.savez("rows.npz", x=np.arange(60.0).reshape(20, 3), y=np.arange(20) % 2)
    assert run(capsys, "--data", "rows.npz", "--force")[0] == 0
    task = load_task("task.toml", [])
    assert (task.model.cls, task.data.schema.mean) == ("node.models:Linear", (28.0, 30.0, 30.0))
    build_model(task, load_dataset(task, tmp_path / "rows.npz", None))


@cases("""
    argv => line
    => --data is missing; allowed: your data (CSV, Excel, Parquet, npz, or a folder of images or texts)
    --data= => --data is missing
    --data no.csv => data file 'no.csv' cannot be read: No such file or directory
    --decimal comma --thousands comma => --thousands comma is refused beside --decimal comma; allowed: another
        mark
    --encoding utf-7 => --encoding 'utf-7' is refused; allowed: cp1250, cp1251,
    --missing= => --missing '' is refused; allowed: a word of at most 60 characters
    --missing x*51 => --missing is given 51 times; allowed: at most 50
    --data no.dat => data file 'no.dat' is refused; allowed: .csv, .tsv or .txt
    --data no.xls => data file 'no.xls' is refused; save it as .xlsx or as .csv
    --target z => data file 'w.csv' has no column 'z'; it has
    --out w.csv => --out 'w.csv' exists already; give another
    --out no/t.toml => --out 'no/t.toml' cannot be written: No such file
    --name a/b => --name 'a/b' is refused; allowed: 64 letters, digits
    --epsilon 0 => --epsilon '0' is refused; allowed: a number from 1e-06
    --epsilon x => --epsilon 'x' is refused; allowed: a number from 1e-06
    --rounds 0 => --rounds '0' is refused; allowed: a whole number from 1
    --peers 65 => --peers '65' is refused; allowed: a whole number from 1 to 64
    --peers 2 --privacy distributed-dp-sgd => --privacy distributed-dp-sgd is refused with --peers 2: members
        share the noise;
    --privacy distributed-dp-sgd => --privacy distributed-dp-sgd is refused with --peers missing: members
        share the noise;
    --model cnn => --model cnn is refused for rows of shape [6]; allowed:
    --privacy no => argument --privacy: invalid choice: 'no'
    --frobnicate => unrecognized arguments: --frobnicate; python -m node.init --help shows
""")
def test_what_somebody_gets_wrong_is_one_line_and_no_file(data, capsys, monkeypatch, argv, line):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    data.rename("w.csv")
    words = argv.replace("--missing x*51", "--missing x " * 51).split()
    status, lines, errors = run(capsys, *(() if not argv else ("--data", "w.csv")), *words)
    assert (status, lines, len(errors)) == (2, [], 1)
    assert errors[0].startswith(f"error: {line}")
    assert not (data.parent / "task.toml").exists()


@cases("""
    argv => line
    w.csv --leave-out y => --leave-out 'y' is refused: it is the target; name another column with --target
    w.csv --target a --leave-out a => --leave-out 'a' is refused: it is the target; name another column with
        --target
    rows.npz --leave-out y => --leave-out 'y' is refused: an npz has arrays, not columns; leave the option out
    scans --leave-out ill => --leave-out 'ill' is refused: images have no columns; leave the option out
    scans --target ill => --target 'ill' is refused: the classes are the names of the folders; leave the
        option out
    rows.npz --target days => data file 'rows.npz': array 'days' holds datetime64[D]; allowed: numbers or text
    rows.npz --target gaps --target-kind classes => data file 'rows.npz': gaps[1] = nan is not a finite number
        of at most 1e30
    rows.npz --target words --target-kind number => data file 'rows.npz': array 'words' holds <U1, not numbers
    one => data folder 'one' has one class, 'ill'; allowed: a folder for each of two classes or more
    bad => data folder 'bad': no image in it can be read
    cut => data folder 'cut': 0 images can be read; 'ill/a.png': image file is truncated
""")
def test_a_choice_that_the_data_has_no_place_for(tmp_path, monkeypatch, capsys, argv, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text("a,b,y\n" + "1,2,0\n2,1,1\n" * 10)
    for place in (
        "one/ill/a",
        "one/ill/b",
        *(f"{f}/{c}/a" for f in ("scans", "bad", "cut") for c in ("ill", "well")),
    ):
        path = picture(tmp_path / f"{place}.png", (1, 2, 3))
        if "bad" in place:
            path.write_bytes(b"no")
        if "cut" in place:
            path.write_bytes(path.read_bytes()[:50])  # its head can be read, and nothing else
    y = np.arange(20) % 2
    targets = {"days": y.astype("M8[D]"), "gaps": np.where(y, np.nan, 0.0), "words": y.astype("U1"), "y": y}
    np.savez("rows.npz", x=np.arange(60.0).reshape(20, 3), **targets)
    status, lines, errors = run(capsys, "--data", *argv.split())
    assert (status, lines) == (2, [])
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {line}")
    assert not (tmp_path / "task.toml").exists()


def test_on_a_terminal_it_asks_for_what_is_missing(monkeypatch):
    answers = iter(["a.csv", "outcome", "5"])
    asked = []
    monkeypatch.setattr(builtins, "input", lambda prompt: asked.append(prompt) or next(answers))
    options = parse_init(["--out", "no such file"], asking=True)
    assert (str(options.data), options.target, options.peers) == ("a.csv", "outcome", 5)
    assert asked == [
        "your data (CSV, Excel, Parquet, npz, or a folder of images or texts): ",
        "the column to predict (empty: the last one): ",
        "how many peers will learn, you among them (empty: not known): ",
    ]


@pytest.mark.parametrize(("answer", "may"), [("Yes", "yes"), ("", None)])
def test_without_privacy_it_asks_whether_members_come_and_go(monkeypatch, answer, may):
    monkeypatch.setattr(builtins, "input", lambda prompt: answer if prompt.startswith("may members") else "")
    argv = ["--data", "a.csv", "--out", "no such file"]
    assert parse_init([*argv, "--privacy", "none"], asking=True).come_and_go == may
    assert parse_init(argv, asking=True).come_and_go is None, "with a budget they always may"


def test_an_empty_answer_takes_the_last_column_and_no_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(builtins, "input", lambda _: "")
    options = parse_init(["--data", "a.csv", "--out", "no such file"], asking=True)
    assert (options.target, options.peers, options.privacy) == (None, None, "dp-sgd")

    def closed(_):
        raise EOFError

    monkeypatch.setattr(builtins, "input", closed)
    assert told(parse_init, [], True).startswith("--data is missing")


def test_a_model_by_the_kind_of_data_and_its_rows():
    table, images = schema(TABLE), schema(IMAGES)
    chosen = [
        propose_model(one, rows, "auto", private=False)
        for one, rows in ((table, 100), (table, 5000), (images, 100))
    ]
    assert [model.cls.rpartition(":")[2] for model in chosen] == ["Linear", "MLP", "ConvNet"]
    assert [model.size for model in chosen] == [16, 322, 9 * 3 * 16 + 16 + 9 * 16 * 32 + 32 + 32 * 4 * 2 + 2]


def shaped(shape):
    """The schema's table of images of this shape."""
    channels = {"mean": [0.5] * shape[0], "std": [0.25] * shape[0]}
    return {**IMAGES, **channels, "shape": shape}


def test_private_images_get_features_that_need_no_training():
    grey = schema(shaped([1, 28, 28]))
    model = propose_model(grey, 2000, "auto", private=True)
    assert (model.cls, model.body, model.size) == ("node.models:Scattering", "body", 39_700 // 10 * 2)
    training = propose_training(2000, 5, model.body)
    privacy = propose_privacy(training, 2000, model.size, None, model.body)
    assert (training.learning_rate, privacy.clipping_radius, privacy.epsilon) == (2.5, 0.1, 1.0)
    assert not privacy.loud
    assert propose_privacy(training, 2000, 400 * model.size, 0.5, model.body).loud
    for shape, kind in (([3, 256, 256], "ConvNet"), ([1, 6, 28], "ConvNet")):
        other = schema(shaped(shape))
        assert propose_model(other, 2000, "auto", private=True).cls == f"node.models:{kind}"
    with pytest.raises(ConfigError, match=r"--model scattering is refused for rows of shape \[1, 6, 28\]"):
        propose_model(schema(shaped([1, 6, 28])), 100, "scattering", private=True)


def test_a_budget_that_suits_rows_and_rounds():
    def privacy(rows, rounds, epsilon=None):
        return propose_privacy(propose_training(rows, rounds), rows, 1000, epsilon)

    few, many, long = privacy(500, 20), privacy(20_000, 20), privacy(20_000, 2000)
    assert (few.epsilon, many.epsilon) == (8.0, 1.0)
    assert few.noise > many.noise
    assert long.noise > many.noise
    assert (few.delta, privacy(50_000, 20).delta) == (1e-5, 1e-6)
    assert privacy(500, 20, 3.0).epsilon == 3.0


@pytest.mark.parametrize(("peers", "honest", "least"), [(3, 1, 3), (5, 2, 3), (10, 4, 5)])
def test_three_and_more_peers_share_their_noise(data, made, peers, honest, least):
    table, text, lines = made("--peers", str(peers), "--model", "linear")
    others = f"if {honest} or more of a peer's others are honest"
    assert any(line.startswith("model: ") and line.endswith(others) for line in lines)
    assert table["privacy"]["mechanism"] == "distributed-dp-sgd"
    assert table["privacy"]["honest"] == honest
    assert set(table["train"]) == {"expected_rows", "loss", "metrics"}, "all others come from the table"
    assert table["train"]["expected_rows"] == float(f"{peers * 240:.1g}")
    assert "clipping_radius" not in table["privacy"]
    task, _ = loaded(data)
    chosen = step_defaults(table["train"]["expected_rows"], task.privacy.epsilon, frozen_body=False)
    for name in ("steps", "learning_rate", "expected_batch"):
        assert getattr(task.train, name) == getattr(chosen, name)
    assert task.privacy.clipping_radius == chosen.clipping_radius
    assert task.aggregation.min_participants == least
    for said in (
        f"# steps = {chosen.steps}, report_every = {chosen.report_every}:",
        f"# expected_batch = {chosen.expected_batch},",
        f"# learning_rate = {chosen.learning_rate}, with momentum 0.9",
        f"# privacy.clipping_radius = {chosen.clipping_radius}",
    ):
        assert f"\n{said}" in text
    assert f"Here: {peers} peers with as many as you.\nexpected_rows = " in text
    assert text.count("    # FROM YOUR DATA: rows, to one digit\n") == 1


@cases("""
    argv => mechanism
    --peers 2 => dp-sgd
    --peers 1 => dp-sgd
    --peers 3 --privacy dp-sgd => dp-sgd
    --peers 3 --privacy none => none
    --peers 3 --privacy distributed-dp-sgd => distributed-dp-sgd
""")
def test_fewer_peers_or_another_wish_leave_each_with_noise_of_its_own(made, argv, mechanism):
    assert made(*argv.split())[0]["privacy"]["mechanism"] == mechanism


def test_rounds_of_shared_steps(made):
    made("--peers", "3", "--rounds", "7")
    train = load_task("task.toml", []).train
    assert (train.rounds, train.steps, train.report_every) == (7, 70, 10)


def test_peers_with_images_share_their_noise_on_features(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(5):
        for name, place in (("ill", 200), ("well", 50)):
            picture(tmp_path / "scans" / name / f"{number}.png", (place,), (16, 16), "L")
    assert run(capsys, "--data", "scans", "--peers", "4")[0] == 0
    task = load_task("task.toml", [])
    assert (task.model.cls, task.model.body) == ("node.models:Scattering", "body")
    assert task.privacy.clipping_radius == step_defaults(30, task.privacy.epsilon, True).clipping_radius
    assert task.train.expected_rows == 30


def test_a_budget_that_suits_the_rows_of_all():
    def privacy(peers, rows, parameters=1000, epsilon=None):
        model = Model("node.models:MLP", {}, parameters, "")
        return propose_shared(peers, rows, model, 20, epsilon)[1]

    assert privacy(3, 20_000).epsilon == 1.0
    assert privacy(3, 30, 5000).epsilon == 8.0
    assert privacy(3, 30, 5000).loud
    assert privacy(30, 1000).noise < privacy(3, 1000).noise
    assert privacy(3, 1000, epsilon=3.0).epsilon == 3.0
    assert (privacy(3, 1000).delta, privacy(3, 20_000).delta) == (1e-5, 1e-6)


def test_noise_that_drowns_everything_is_told(made):
    warning = "warning: with so few rows for this model, noise drowns most"
    for argv, loud in (("--model mlp --epsilon 0.5", True), ("--privacy none", False)):
        assert any(line.startswith(warning) for line in made(*argv.split())[2]) is loud
