import builtins
import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from node.data.dataset import load_dataset
from node.errors import ConfigError
from node.init.__main__ import main, parse_init
from node.init.proposal import propose_model, propose_privacy, propose_shared, propose_training
from node.init.rate_search import candidates, searched_rate
from node.task.load import load_task
from node.task.plain_defaults import plain_defaults
from node.task.rules import key_name
from node.task.sections import TrainSection
from node.task.step_defaults import step_defaults
from node.training.build import build_model
from node.training.tallies import make_tally
from tests.openings import after_opening
from tests.own_data import IMAGES, TABLE, picture, schema, told, toml, ward


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


def test_a_task_that_runs_at_once(data, capsys):
    status, lines, errors = run(capsys, "--data", str(data), "--target", "outcome")
    assert (status, errors) == (0, [])
    assert lines[0] == ("ward 7.csv: 300 rows, 4 columns as 6 features, target 'outcome', 1 column left out")
    assert "  id       left out              an identifier: a different number in every row" in lines
    task = load_task("task.toml", [])
    assert (task.task.name, task.model.cls, task.privacy.mechanism) == (
        "ward-7",
        "node.models:Linear",
        "dp-sgd",
    )
    dataset = load_dataset(task, data, None)
    assert (dataset.classes, dataset.train_x.shape[1]) == (2, 6)
    build_model(task, dataset)


def test_the_file_says_what_came_from_looking(data, capsys):
    run(capsys, "--data", str(data))
    text = (data.parent / "task.toml").read_text()
    lines = text.splitlines()
    assert "# - means and spreads of numbers and dates, to two digits" in lines
    assert "# - names of categories that 5 rows or more have" in lines
    schema_lines = lines[lines.index("[data.schema]") :]
    revealing = [
        line for line in schema_lines if any(word in line for word in ("values", "mean", "left out"))
    ]
    assert len(revealing) == 5
    assert all("# FROM YOUR DATA" in line for line in revealing)
    assert "ward 7.csv" not in text


def test_no_cell_of_a_column_that_is_left_out_gets_into_the_file(data, capsys):
    data.write_text("secret,age,y\n" + "".join(f"Ada,{row % 9},{row % 2}\n" for row in range(40)))
    _, lines, _ = run(capsys, "--data", str(data))
    assert "  secret  left out           the same in every row that has a value: 'Ada'" in lines
    text = (data.parent / "task.toml").read_text()
    assert "# left out: secret    # FROM YOUR DATA" in text
    assert "Ada" not in text


def test_rare_categories_are_not_named(data, capsys):
    rows = "".join(f"{'leper' if row == 3 else 'ab'[row % 2]},{row % 9},{row % 2}\n" for row in range(60))
    data.write_text("c,d,y\n" + rows)
    run(capsys, "--data", str(data))
    assert "leper" not in (data.parent / "task.toml").read_text()


def test_names_that_toml_and_comments_must_quote(data, capsys):
    header = '"a ""b"" = \\ [x]","# c\x7f","e\ny"\n'
    words = ('"ü"""', "b")
    data.write_text(header + "".join(f"{row % 9},{words[row % 2]},{row % 2}\n" for row in range(40)))
    status, _, errors = run(capsys, "--data", str(data))
    assert (status, errors) == (0, [])
    columns = toml(data.parent / "task.toml")["data"]["schema"]["columns"]
    assert [column["name"] for column in columns] == ['a "b" = \\ [x]', "# c\x7f"]


@pytest.mark.parametrize(
    ("argv", "keys"),
    [
        (("--privacy", "none"), {"privacy.mechanism": "none"}),
        (("--epsilon", "3"), {"privacy.epsilon": 3.0}),
        (("--rounds", "7", "--name", "x"), {"train.rounds": 7, "task.name": "x"}),
        (("--model", "mlp"), {"model.class": "node.models:MLP"}),
        (
            ("--dates", "month-first", "--missing", "k.A.", "--missing=-9", "--separator", "comma"),
            {
                "data.schema.dialect": {
                    "decimal": "point",
                    "dates": "month-first",
                    "missing": ["k.A.", "-9"],
                    "separator": "comma",
                }
            },
        ),
        (("--months", "german"), {"data.schema.dialect": {"decimal": "point", "months": "german"}}),
        (
            ("--thousands", "apostrophe", "--encoding", "CP1250"),
            {"data.schema.dialect": {"decimal": "point", "thousands": "apostrophe", "encoding": "cp1250"}},
        ),
        (("--target", "age"), {"data.schema.target.kind": "number"}),
        (("--target", "age", "--target-kind", "classes"), {"data.schema.target.kind": "classes"}),
    ],
)
def test_what_is_asked_for_stands_in_the_file(data, capsys, argv, keys):
    assert run(capsys, "--data", str(data), *argv)[0] == 0
    table = toml(data.parent / "task.toml")
    for dotted, value in keys.items():
        place = table
        for part in dotted.split("."):
            place = place[part]
        assert place == value
    task = load_task("task.toml", [])
    build_model(task, load_dataset(task, data, None))


@pytest.mark.parametrize(
    ("target", "judging"),
    [("outcome", ["accuracy", "balanced-accuracy", "auc"]), ("age", ["r2", "mae"])],
)
def test_loss_and_metrics_stand_in_the_file_where_a_task_has_such_keys(data, capsys, target, judging):
    assert run(capsys, "--data", str(data), "--target", target, "--privacy", "none")[0] == 0
    train = toml(data.parent / "task.toml")["train"]
    known = {key_name(entry) for entry in fields(TrainSection)}
    wanted = {"loss": "auto", "metrics": judging}
    assert {name: train.get(name) for name in wanted if name in known} == {
        name: value for name, value in wanted.items() if name in known
    }
    assert set(train) <= known


def rare(rows, share):
    """Makes a CSV in which a share of the rows, the oldest, say yes."""
    ages = np.random.default_rng(1).integers(20, 80, rows)
    places = np.argsort(np.argsort(ages, kind="stable"))
    words = np.where(places >= rows * (1 - share), "ja", "nein")
    return "age,sick\n" + "".join(f"{age},{word}\n" for age, word in zip(ages, words, strict=True))


def test_training_without_privacy_is_adam_from_the_table(data, capsys):
    assert run(capsys, "--data", str(data), "--privacy", "none")[0] == 0
    train = toml(data.parent / "task.toml")["train"]
    found = plain_defaults("node.models:Linear", 6, 240, 20)
    written = {
        name: train[name] for name in ("optimizer", "learning_rate", "schedule", "batch_size", "epochs")
    }
    assert written == {name: getattr(found, name) for name in written}


def test_a_rare_class_gets_a_balanced_loss_that_is_marked(data, capsys):
    data.write_text(rare(400, 0.08))
    assert run(capsys, "--data", str(data), "--privacy", "none", "--peers", "3")[0] == 0
    train = toml(data.parent / "task.toml")["train"]
    assert (train["loss"], train["loss_args"]) == ("balanced-softmax", {"prior": [0.08, 0.92]})
    lines = (data.parent / "task.toml").read_text().splitlines()
    assert all("# FROM YOUR DATA" in line for line in lines if "prior" in line or "92%" in line)
    assert "# - the share of each class, to two digits" in lines
    task = load_task("task.toml", [])
    build_model(task, load_dataset(task, data, None))


@pytest.mark.parametrize("privacy", [("dp-sgd",), ("distributed-dp-sgd", "--peers", "3")])
@pytest.mark.parametrize("agree", [(), ("--agree",)])
def test_with_privacy_no_share_of_a_class_gets_into_the_file(data, capsys, privacy, agree):
    """The same file for rows with one rare class and with another share of it."""
    texts = set()
    for share in (0.08, 0.3):
        data.write_text(rare(400, share))
        assert run(capsys, "--data", str(data), "--privacy", *privacy, *agree, "--force")[0] == 0
        texts.add((data.parent / "task.toml").read_text())
    assert len(texts) == 1
    assert ('loss = "auto"    # node.agree replaces it if a class is rare' in texts.pop()) == bool(agree)


def test_heavy_tails_get_a_robust_loss_unless_node_agree_is_to_choose(data, capsys):
    y = [100.5 + row % 7 for row in range(300)]
    y[17] = 1e6
    data.write_text("x,y\n" + "".join(f"{row % 7},{value}\n" for row, value in enumerate(y)))
    assert run(capsys, "--data", str(data), "--privacy", "none")[0] == 0
    assert toml(data.parent / "task.toml")["train"]["loss"] == "huber"
    assert "# - how far off the farthest targets are" in (data.parent / "task.toml").read_text()
    assert run(capsys, "--data", str(data), "--privacy", "none", "--agree", "--force")[0] == 0
    assert toml(data.parent / "task.toml")["train"]["loss"] == "auto"


def test_a_search_for_the_rate_is_marked_and_needs_no_privacy(data, capsys):
    assert run(capsys, "--data", str(data), "--privacy", "none", "--search")[0] == 0
    (line,) = (
        line
        for line in (data.parent / "task.toml").read_text().splitlines()
        if line.startswith("learning_rate")
    )
    assert line.endswith("# FROM YOUR DATA: the best of three on rows held back")
    assert toml(data.parent / "task.toml")["train"]["learning_rate"] in (0.01, 0.03, 0.09)
    status, _, errors = run(capsys, "--data", str(data), "--search", "--force")
    assert (status, errors[0][:40]) == (2, "error: --search is refused with --privac")


def test_a_search_leaves_a_rate_that_diverges_and_keeps_one_that_is_as_good(data, capsys):
    run(capsys, "--data", str(data), "--privacy", "none")
    task = load_task("task.toml", [])
    dataset = load_dataset(task, data, None)
    assert candidates(0.03) == (0.01, 0.03, 0.09)
    assert searched_rate(changed_rate(task, "adam", 1e-3), dataset) == 3e-3, "the longest step of short ones"
    assert searched_rate(changed_rate(task, "adam", 1e-9), dataset) == 1e-9, "all learn nothing"
    assert searched_rate(changed_rate(task, "adam", 30.0), dataset) == 10.0


def changed_rate(task, optimizer, rate):
    return replace(task, train=replace(task.train, optimizer=optimizer, learning_rate=rate))


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (("--target", "outcome", "--privacy", "none"), "scores"),
        (("--target", "age", "--privacy", "none"), "sums"),
        (("--target", "age", "--target-kind", "classes", "--privacy", "none"), "sums"),
        (("--target", "outcome"), None),
    ],
)
def test_without_privacy_the_file_has_a_metric_of_all(data, capsys, argv, kind):
    """It fits the targets, comes at least once in a run, and is absent with privacy."""
    assert run(capsys, "--data", str(data), *argv)[0] == 0
    assert toml(data.parent / "task.toml").get("aggregation", {}).get("swarm_metric") == kind
    assert run(capsys, "--data", str(data), *argv, "--rounds", "3", "--force")[0] == 0
    task = load_task("task.toml", [])
    assert task.aggregation.swarm_metric_every == (5 if kind is None else 3)
    dataset = load_dataset(task, data, None)
    if kind is not None:
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


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            (),
            "error: --data is missing; allowed: your data (CSV, Excel, Parquet, npz, or a folder of images)",
        ),
        (("--data", ""), "error: --data is missing"),
        (("--data", "no.csv"), "error: data file 'no.csv' cannot be read: No such file or directory"),
        (
            ("--data", "ward 7.csv", "--decimal", "comma", "--thousands", "comma"),
            "error: --thousands comma is refused beside --decimal comma; allowed: another mark",
        ),
        (
            ("--data", "ward 7.csv", "--encoding", "utf-7"),
            "error: --encoding 'utf-7' is refused; allowed: cp1250, cp1251,",
        ),
        (
            ("--data", "ward 7.csv", "--missing", " "),
            "error: --missing ' ' is refused; allowed: a word of at most 60 characters",
        ),
        (
            ("--data", "ward 7.csv", *("--missing", "x") * 51),
            "error: --missing is given 51 times; allowed: at most 50",
        ),
        (("--data", "no.dat"), "error: data file 'no.dat' is refused; allowed: .csv, .tsv or .txt"),
        (("--data", "no.xls"), "error: data file 'no.xls' is refused; save it as .xlsx or as .csv"),
        (
            ("--data", "ward 7.csv", "--target", "z"),
            "error: data file 'ward 7.csv' has no column 'z'; it has",
        ),
        (
            ("--data", "ward 7.csv", "--out", "ward 7.csv"),
            "error: --out 'ward 7.csv' exists already; give another",
        ),
        (
            ("--data", "ward 7.csv", "--out", "no/t.toml"),
            "error: --out 'no/t.toml' cannot be written: No such file",
        ),
        (
            ("--data", "ward 7.csv", "--name", "a b"),
            "error: --name 'a b' is refused; allowed: 64 letters, digits",
        ),
        (
            ("--data", "ward 7.csv", "--epsilon", "0"),
            "error: --epsilon '0' is refused; allowed: a number from 1e-06",
        ),
        (
            ("--data", "ward 7.csv", "--epsilon", "x"),
            "error: --epsilon 'x' is refused; allowed: a number from 1e-06",
        ),
        (
            ("--data", "ward 7.csv", "--rounds", "0"),
            "error: --rounds '0' is refused; allowed: a whole number from 1",
        ),
        (
            ("--data", "ward 7.csv", "--peers", "65"),
            "error: --peers '65' is refused; allowed: a whole number from 1 to 64",
        ),
        (
            ("--data", "ward 7.csv", "--peers", "2", "--privacy", "distributed-dp-sgd"),
            "error: --privacy distributed-dp-sgd is refused with --peers 2: members share the noise;",
        ),
        (
            ("--data", "ward 7.csv", "--privacy", "distributed-dp-sgd"),
            "error: --privacy distributed-dp-sgd is refused with --peers missing: members share the noise;",
        ),
        (
            ("--data", "ward 7.csv", "--model", "cnn"),
            "error: --model cnn is refused for rows of shape [6]; allowed:",
        ),
        (("--data", "ward 7.csv", "--privacy", "no"), "error: argument --privacy: invalid choice: 'no'"),
        (("--frobnicate",), "error: unrecognized arguments: --frobnicate; python -m node.init --help shows"),
    ],
)
def test_what_somebody_gets_wrong_is_one_line_and_no_file(data, capsys, monkeypatch, argv, line):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    status, lines, errors = run(capsys, *argv)
    assert (status, lines, len(errors)) == (2, [], 1)
    assert errors[0].startswith(line)
    assert not (data.parent / "task.toml").exists()


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            ("w.csv", "--leave-out", "y"),
            "--leave-out 'y' is refused: it is the target; name another column with --target",
        ),
        (
            ("w.csv", "--target", "a", "--leave-out", "a"),
            "--leave-out 'a' is refused: it is the target; name another column with --target",
        ),
        (
            ("rows.npz", "--leave-out", "y"),
            "--leave-out 'y' is refused: an npz has arrays, not columns; leave the option out",
        ),
        (
            ("scans", "--leave-out", "ill"),
            "--leave-out 'ill' is refused: images have no columns; leave the option out",
        ),
        (
            ("scans", "--target", "ill"),
            "--target 'ill' is refused: the classes are the names of the folders; leave the option out",
        ),
        (
            ("rows.npz", "--target", "complex"),
            "data file 'rows.npz': array 'complex' holds complex128; allowed: numbers or text",
        ),
        (
            ("rows.npz", "--target", "days"),
            "data file 'rows.npz': array 'days' holds datetime64[D]; allowed: numbers or text",
        ),
        (
            ("rows.npz", "--target", "objects"),
            (
                "data file 'rows.npz': array 'objects' holds Python objects, which are not read; allowed: "
                "numbers, or text for labels; save it as such, as with array.astype(str)"
            ),
        ),
        (
            ("rows.npz", "--target", "gaps", "--target-kind", "classes"),
            "data file 'rows.npz': gaps[1] = nan is not a finite number of at most 1e30",
        ),
        (
            ("rows.npz", "--target", "words", "--target-kind", "number"),
            "data file 'rows.npz': array 'words' holds <U1, not numbers",
        ),
    ],
)
def test_a_choice_that_the_data_has_no_place_for(tmp_path, monkeypatch, capsys, argv, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text("a,b,y\n" + "1,2,0\n2,1,1\n" * 10)
    for name in ("ill", "well"):
        picture(tmp_path / "scans" / name / "a.png", (1, 2, 3))
    y = np.arange(20) % 2
    targets = {
        "y": y,
        "complex": y + 1j,
        "days": y.astype("datetime64[D]"),
        "objects": y.astype(object),
        "gaps": np.where(y, np.nan, 0.0),
        "words": y.astype("U1"),
    }
    np.savez("rows.npz", x=np.arange(60.0).reshape(20, 3), **targets)
    status, lines, errors = run(capsys, "--data", *argv)
    assert (status, lines, errors) == (2, [], [f"error: {line}"])


def test_folders_that_are_no_set_of_images(tmp_path, capsys):
    picture(tmp_path / "scans" / "ill" / "a.png", (1, 2, 3))
    picture(tmp_path / "scans" / "ill" / "b.png", (1, 2, 3))
    _, _, errors = run(capsys, "--data", str(tmp_path / "scans"))
    assert errors[0].endswith(" has one class, 'ill'; allowed: a folder for each of two classes or more")
    for name in ("ill", "well"):
        picture(tmp_path / "bad" / name / "a.png", (1, 2, 3)).write_bytes(b"no")
    _, _, errors = run(capsys, "--data", str(tmp_path / "bad"))
    assert errors[0].endswith(": no image in it can be read")


def test_no_file_is_written_for_data_that_no_node_could_start_with(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("ill", "well"):
        path = picture(tmp_path / "scans" / name / "a.png", (1, 2, 3))
        path.write_bytes(path.read_bytes()[:50])  # its head can be read, and nothing else
    status, lines, errors = run(capsys, "--data", "scans")
    assert (status, lines) == (2, [])
    assert errors[0].startswith("error: data folder 'scans': 0 images can be read; 'ill/a.png': ")
    assert not (tmp_path / "task.toml").exists()


def test_on_a_terminal_it_asks_for_what_is_missing(monkeypatch):
    answers = iter(["a.csv", "outcome", "5"])
    asked = []
    monkeypatch.setattr(builtins, "input", lambda prompt: asked.append(prompt) or next(answers))
    options = parse_init(["--out", "no such file"], asking=True)
    assert (str(options.data), options.target, options.peers) == ("a.csv", "outcome", 5)
    assert asked == [
        "your data (CSV, Excel, Parquet, npz, or a folder of images): ",
        "the column to predict (empty: the last one): ",
        "how many peers will learn, you among them (empty: not known): ",
    ]


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


@pytest.mark.parametrize(("peers", "honest", "least"), [(3, 1, 3), (4, 1, 3), (5, 2, 3), (10, 4, 5)])
def test_three_and_more_peers_share_their_noise(data, capsys, peers, honest, least):
    status, lines, errors = run(capsys, "--data", str(data), "--peers", str(peers))
    assert (status, errors) == (0, [])
    others = f"if {honest} or more of a peer's others are honest"
    assert any(line.startswith("model: ") and line.endswith(others) for line in lines)
    table = toml(data.parent / "task.toml")
    assert table["privacy"]["mechanism"] == "distributed-dp-sgd"
    assert table["privacy"]["honest"] == honest
    assert set(table["train"]) == {"expected_rows", "loss", "metrics"}, "all others come from the table"
    assert table["train"]["expected_rows"] == float(f"{peers * 240:.1g}")
    assert "clipping_radius" not in table["privacy"]
    task = load_task("task.toml", [])
    chosen = step_defaults(table["train"]["expected_rows"], task.privacy.epsilon, frozen_body=False)
    assert (task.train.steps, task.train.learning_rate) == (chosen.steps, chosen.learning_rate)
    assert (task.train.expected_batch, task.privacy.clipping_radius) == (
        *(chosen.expected_batch, chosen.clipping_radius),
    )
    assert task.aggregation.min_participants == least
    text = (data.parent / "task.toml").read_text()
    for said in (
        f"# steps = {chosen.steps}, report_every = {chosen.report_every}:",
        f"# expected_batch = {chosen.expected_batch},",
        f"# learning_rate = {chosen.learning_rate}, with momentum 0.9",
        f"# privacy.clipping_radius = {chosen.clipping_radius}",
    ):
        assert f"\n{said}" in text
    assert f"Here: {peers} peers with as many as you.    # FROM YOUR DATA: rows" in text
    build_model(task, load_dataset(task, data, None))


@pytest.mark.parametrize(
    ("argv", "mechanism"),
    [
        (("--peers", "2"), "dp-sgd"),
        (("--peers", "1"), "dp-sgd"),
        ((), "dp-sgd"),
        (("--peers", "3", "--privacy", "dp-sgd"), "dp-sgd"),
        (("--peers", "3", "--privacy", "none"), "none"),
        (("--peers", "3", "--privacy", "distributed-dp-sgd"), "distributed-dp-sgd"),
    ],
)
def test_fewer_peers_or_another_wish_leave_each_with_noise_of_its_own(data, capsys, argv, mechanism):
    assert run(capsys, "--data", str(data), *argv)[0] == 0
    assert load_task("task.toml", []).privacy.mechanism == mechanism


def test_rounds_of_shared_steps(data, capsys):
    run(capsys, "--data", str(data), "--peers", "3", "--rounds", "7")
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
        return propose_shared(peers, rows, parameters, 20, epsilon, None)[1]

    assert privacy(3, 20_000).epsilon == 1.0
    assert privacy(3, 30, 5000).epsilon == 8.0
    assert privacy(3, 30, 5000).loud
    assert privacy(30, 1000).noise < privacy(3, 1000).noise
    assert privacy(3, 1000, epsilon=3.0).epsilon == 3.0
    assert (privacy(3, 1000).delta, privacy(3, 20_000).delta) == (1e-5, 1e-6)


def test_noise_that_drowns_everything_is_told(data, capsys):
    _, lines, _ = run(capsys, "--data", str(data), "--model", "mlp", "--epsilon", "0.5")
    assert any(
        line.startswith("warning: with so few rows for this model, noise drowns most") for line in lines
    )
    _, lines, _ = run(capsys, "--data", str(data), "--privacy", "none", "--force")
    assert not any(line.startswith("warning") for line in lines)
