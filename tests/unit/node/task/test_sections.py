import dataclasses
import json
from typing import get_type_hints

import pytest

from node.task.load import load_task, read_task
from node.task.parameters import canonical_parameters, describe_difference, describe_lists
from node.task.rules import key_name, rule_of
from node.task.sections import Task
from node.training.model_file import task_table
from tests.own_data import told
from tests.unit.node.cases import cases

MINIMAL = '[task]\nname = "t"\n[model]\nclass = "node.models:MLP"\n'
SHAPES = [("layers.0.weight", (64, 64)), ("layers.0.bias", (64,))]
SECTIONS = get_type_hints(Task)


def refused(name_or_path, *overrides):
    return told(load_task, str(name_or_path), overrides)


@pytest.fixture
def task_file(tmp_path):
    def write(text):
        path = tmp_path / "task.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_digits_is_built_in_and_has_the_values_of_the_design():
    task = load_task("digits", [])
    assert (task.task.name, task.task.seed) == ("digits", 0)
    assert task.model.cls == "node.models:MLP"
    assert task.model.args == {"sizes": [64, 64, 10]}
    train = task.train
    assert (train.rounds, train.epochs, train.batch_size) == (20, 2, 16)
    assert (train.optimizer, train.learning_rate, train.momentum) == ("sgd", 0.1, 0.9)
    assert (task.privacy.mechanism, task.aggregation.min_participants) == ("none", 3)


def test_a_file_needs_only_a_name_and_a_model(task_file):
    task = load_task(task_file(MINIMAL), [])
    assert (task.model.args, task.data.source) == ({}, None)
    assert task.train == load_task("digits", []).train


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        pytest.param(section, entry, id=f"{section}.{key_name(entry)}")
        for section, cls in SECTIONS.items()
        for entry in dataclasses.fields(cls)
        if entry.default not in (None, dataclasses.MISSING)
    ],
)
def test_every_default_obeys_its_own_rule(section, entry):
    kept = rule_of(entry).accept(entry.default)
    assert (kept, type(kept)) == (entry.default, type(entry.default))


def test_a_task_file_that_is_not_there(tmp_path):
    assert refused("digitz") == "task 'digitz' is not known; allowed: digits, or a FILE.toml"
    assert "cannot be read: No such file or directory" in refused(tmp_path / "no.toml")
    (tmp_path / "folder.toml").mkdir()
    assert "cannot be read: Is a directory" in refused(tmp_path / "folder.toml")


@pytest.mark.parametrize("text", ["[task", b"\xff\xfe\x00", "a = " + "[" * 5000, "a = 1\na = 2"])
def test_a_task_file_that_is_not_toml(task_file, text):
    assert "is not valid TOML" in refused(task_file(text))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "task.name is missing; allowed: letters, digits"),
        ('[task]\nname = "t"\n', "model.class is missing; allowed: 'package.module:Class'"),
        (
            f"{MINIMAL}[trian]\nrounds = 3",
            "'trian' is not a known section (did you mean 'train'?); allowed: task,",
        ),
        (
            f"{MINIMAL}[train]\nround = 3",
            "'train.round' is not a known key (did you mean 'rounds'?); allowed: ro",
        ),
        (f"train = 5\n{MINIMAL}", "train = 5 is refused; allowed: a table with rounds, epochs"),
    ],
)
def test_a_task_file_with_something_else_than_keys_of_sections(task_file, text, line):
    assert refused(task_file(text)).startswith(line)


@cases("""
    override => line
    train.rounds=ten => train.rounds = 'ten' is refused; allowed: a whole number from 1 to 1000000
    train.rounds=0 => train.rounds = 0 is refused; allowed: a whole number from 1 to 1000000
    train.rounds=2.0 => train.rounds = 2.0 is refused; allowed: a whole number
    train.rounds=true => train.rounds = true is refused; allowed: a whole number
    train.rounds= => train.rounds = '' is refused; allowed: a whole number
    train.learning_rate=nan => train.learning_rate = nan is refused; allowed: a number above 0
    train.learning_rate=1e999 => train.learning_rate = inf is refused
    train.learning_rate=true => train.learning_rate = true is refused
    train.learning_rate=0 => train.learning_rate = 0 is refused
    train.grad_clip=none => train.grad_clip = 'none' is refused; allowed: a number above 0
    train.momentum=1 => train.momentum = 1 is refused; allowed: a number at least 0 and below 1
    train.optimizer=lion => train.optimizer = 'lion' is refused; allowed: 'sgd', 'adam', 'adamw' or
    train.loss=hinge => train.loss = 'hinge' is refused; allowed: 'auto', 'cross-entropy', 'balanced-softmax',
        'bce', 'mse', 'mae', 'huber', 'poisson' or 'package.module:Name'
    train.schedule=cyclic => allowed: 'constant', 'linear', 'cosine', 'step' or 'package.module:Name'
    train.metrics=["auc", "auc"] => train.metrics = ['auc', 'auc'] is refused; allowed: a list of one or more
        of accuracy, balanced-accuracy, auc, r2, mae, deviance, each once
    train.metrics=["f1"] => train.metrics = ['f1'] is refused; allowed: a list of one or more of accuracy
    train.metrics=[] => train.metrics = [] is refused; allowed: a list of one or more of accuracy
    train.device=gpu => train.device = 'gpu' is refused; allowed: 'cpu', 'cuda', 'cuda:N', 'mps' or 'auto'
    train.threads=0 => train.threads = 0 is refused; allowed: a whole number from 1 to 1024
    train.local=3 => train.local = 3 is refused; allowed: a pattern of parameter names, such as 'body.*'
    train.loss_args=3 => train.loss_args = 3 is refused; allowed: a table of text, numbers, booleans, lists
    train.loss_args.delta=2 => train.loss_args = {'delta': 2} are refused with train.loss = 'auto'; name the
        loss that they are for
    train.parameters=3 => train.parameters = 3 is refused; allowed: a pattern of parameter names
    task.seed=-1 => task.seed = -1 is refused; allowed: a whole number from 0 to 4294967295
    task.name=../../etc => task.name = '../../etc' is refused; allowed: letters, digits
    model.class=MLP => model.class = 'MLP' is refused; allowed: 'package.module:Class'
    model.args=5 => model.args = 5 is refused; allowed: a table of text, numbers
    model.args.width=nan => model.args = {
    model.args.day=2024-01-01 => model.args = {
    data.test_fraction=1 => data.test_fraction = 1 is refused; allowed: a number above 0 and below 1
    data.features=[] => data.features = [] is refused; allowed: a list of different column names
    data.features=["a","a"] => data.features = ['a', 'a'] is refused
    data.features=age => data.features = 'age' is refused
    aggregation.protocol=plain => 'plain' is refused; allowed: 'masked' or 'additive'
    aggregation.weighting=rows => 'rows' is refused; allowed: 'uniform' or 'samples'
    aggregation.dropouts=32 => aggregation.dropouts = 32 is refused; allowed: a whole number from 0 to 31
    aggregation.public_weights=1 => aggregation.public_weights = 1 is refused; allowed: true or false
    aggregation.weighting=samples => aggregation.sample_cap is missing, which aggregation.weighting =
    aggregation.sample_cap=0 => sample_cap = 0 is refused; allowed: a whole number from 1 to 1000000
    aggregation.sample_cap=9 => aggregation.sample_cap = 9 has no effect without aggregation.weighting
    aggregation.public_weights=true => aggregation.public_weights = true has no effect without
    aggregation.shares=none => 'none' is refused; allowed: 'seed' or 'ring' or 'float'
    aggregation.bits=8 => aggregation.bits = 8 is refused; allowed: 16 or 32
    aggregation.bits=16.0 => aggregation.bits = 16.0 is refused; allowed: 16 or 32
    aggregation.clip=0 => aggregation.clip = 0 is refused; allowed: a number above 0
    aggregation.loss_gate=0 => aggregation.loss_gate = 0 is refused; allowed: a number above 0
    aggregation.loss_gate='much' => aggregation.loss_gate = 'much' is refused; allowed: a number above 0
    aggregation.sums_timeout_s=0 => aggregation.sums_timeout_s = 0 is refused
    privacy.mechanism=dp => privacy.mechanism = 'dp' is refused; allowed: 'none', 'ldp', 'aldp', 'dp-sgd',
        'distributed
    privacy.epsilon=0 => privacy.epsilon = 0 is refused; allowed: a number at least 1e-06 and at most
    privacy.delta=1 => privacy.delta = 1 is refused; allowed: a number above 0 and below 1
    privacy.delta=0 => privacy.delta = 0 is refused; allowed: a number above 0 and below 1
    privacy.metric_share=1 => privacy.metric_share = 1 is refused; allowed: a number at least 0.001
    privacy.metric_share=0 => privacy.metric_share = 0 is refused; allowed: a number at least 0.001
    privacy.window=0 => privacy.window = 0 is refused; allowed: a whole number from 1 to 1000
    privacy.epsilon=2e6 => privacy.epsilon = 2000000.0 is refused; allowed: a number at least 1e-06 and at
    privacy.clipping_radius=-1 => privacy.clipping_radius = -1 is refused; allowed: a number at least 1e-06
    privacy.clipping_radius=1e30 => privacy.clipping_radius = 1e+30 is refused; allowed: a number at least
    privacy.window_source=mine => 'mine' is refused; allowed: 'raw' or 'aggregate' or 'quantile'
    privacy.calibration=classic => 'classic' is refused; allowed: 'exact' or 'linear-classic'
    privacy.epsilon=4 => privacy.epsilon = 4 has no effect without privacy.mechanism
    train.momentum.x=1 => momentum is a value, not a table of keys
    train.epoch=1 => 'train.epoch' is not a known key (did you mean 'epochs'?)
    tarin.epochs=1 => 'tarin' is not a known section (did you mean 'train'?)
    rounds=5 => --set 'rounds=5' is refused; allowed: section.key=value, such as train.rounds=5
    train.rounds => --set 'train.rounds' is refused; allowed: section.key=value
    aggregation.min_participants=2 => aggregation.min_participants = 2 is refused; allowed: a whole number
        from 3 to 64: with two, each subtracts its own update and has the other's; larger swarms come later
    => --set '' is refused; allowed: section.key=value
    .rounds=1 => --set '.rounds=1' is refused; allowed: section.key=value
""")
def test_a_bad_override(override, line):
    message = refused("digits", override)
    assert line in message
    assert len(message) < 400


ADDITIVE, MASKED = "aggregation.protocol=additive", "aggregation.protocol=masked"
WEIGHTED = ("aggregation.weighting=samples", "aggregation.sample_cap=100")


@cases("""
    overrides => line
    aggregation.protocol=masked aggregation.shares=ring => 'ring' is refused with aggregation.protocol =
        'masked'
    aggregation.protocol=masked aggregation.shares=float => 'float' is refused with aggregation.protocol =
        'masked'
    aggregation.protocol=additive aggregation.dropouts=1 => 1 is refused with aggregation.protocol =
        'additive'
    aggregation.bits=16 aggregation.protocol=additive => aggregation.bits = 16 is refused with
        aggregation.protocol = 'additive': shares have words of 32 bits; set aggregation.protocol=masked;
        allowed: 32
    aggregation.bits=16 WEIGHTED => bits = 16 is refused with aggregation.weighting = 'samples': a weight
    aggregation.bits=16 aggregation.swarm_metric=confusion => is refused with aggregation.swarm_metric =
        'confusion': counts need 32 bits; set aggregation.swarm_metric=none
    aggregation.swarm_metric=sums privacy.mechanism=ldp => aggregation.swarm_metric = 'sums' is refused with
        privacy.mechanism = 'ldp': no noise covers the counts of your rows; allowed with 'none', 'dp-sgd',
        'distributed-dp-sgd'; set aggregation.swarm_metric=none
    aggregation.swarm_metric=sums privacy.mechanism=a:B => allowed with 'none', 'dp-sgd', 'distributed-dp-sgd'
    aggregation.swarm_metric=sums aggregation.protocol=additive aggregation.shares=float => is refused with
        aggregation.shares = 'float', whose sums are not exact; allowed: aggregation.shares=seed or ring
    aggregation.swarm_metric_every=3 => aggregation.swarm_metric_every = 3 has no effect without
        aggregation.swarm_metric; set that or leave it out
    privacy.mechanism=dp-sgd privacy.metric_share=0.3 => privacy.metric_share = 0.3 has no effect without
        aggregation.swarm_metric; set that or leave it out
    aggregation.bits=16 privacy.mechanism=distributed-dp-sgd => aggregation.bits = 16 is refused with
        privacy.mechanism = 'distributed-dp-sgd': shared noise needs 32 bits, as what wraps around in 16 would
    aggregation.bits=16 model.class=node.models:Trees => bits = 16 is refused with model.class =
        'node.models:Trees': its sums are of whole numbers
    aggregation.liars=3 => aggregation.liars = 3 is refused with aggregation.min_participants = 3
    aggregation.protocol=additive aggregation.shares=float WEIGHTED => refused with aggregation.shares =
        'float'
    WEIGHTED privacy.mechanism=ldp => allowed: aggregation.public_weights=true, which declares
    WEIGHTED privacy.mechanism=a:B => refused with privacy.mechanism = 'a:B'
    data.target=y data.features=["x","y"] => data.target = 'y' stands in data.features too
    train.optimizer=a.b:C train.weight_decay=0.1 => train.weight_decay = 0.1 has no effect with
        train.optimizer = 'a.b:C'; set train.optimizer_args.weight_decay, or leave it out
    train.seconds=5 train.epochs=3 => train.seconds = 5 is refused beside train.epochs = 3: a round has so
        many seconds or so many epochs; set one of the two
    train.seconds=5 privacy.mechanism=dp-sgd => train.seconds = 5 is refused with privacy.mechanism =
        'dp-sgd', whose noise is made for a known number of steps; set train.epochs
    train.loss=cross-entropy train.loss_args={weight=[1.0,2.0]} privacy.mechanism=dp-sgd =>
        train.loss_args.weight is refused with privacy.mechanism = 'dp-sgd': the mean over one row divides its
        weight out again; leave it out, or name a train.loss of your own
""")
def test_what_can_not_be_together(overrides, line):
    message = refused("digits", *overrides.replace("WEIGHTED", " ".join(WEIGHTED)).split())
    assert line in message
    assert any(words in message for words in ("allowed", "set ", "leave it out"))


@pytest.mark.parametrize(
    "overrides",
    [
        (MASKED, "aggregation.dropouts=31"),
        ("aggregation.bits=16", "privacy.mechanism=dp-sgd"),
        (ADDITIVE, "aggregation.dropouts=0"),
        (ADDITIVE, "aggregation.shares=ring", *WEIGHTED),
        (*WEIGHTED, "aggregation.public_weights=true"),
        (*WEIGHTED, "aggregation.public_weights=true", "privacy.mechanism=ldp"),
        ("train.optimizer=a.b:C",),
        ("train.seconds=0.5",),
        ("train.seconds=5", "privacy.mechanism=ldp"),
        ("train.seconds=5", "privacy.mechanism=aldp"),
        ("train.loss=cross-entropy", "train.loss_args={weight=[1.0, 2.0]}", "privacy.mechanism=ldp"),
    ],
)
def test_what_can_be_together(overrides):
    load_task("digits", overrides)


def test_overrides_are_toml_values_or_bare_words_and_the_last_one_holds():
    sets = "train.rounds=5|train.rounds = 7|train.learning_rate=1|train.grad_clip=0.5|train.optimizer=adam"
    sets += '|data.target="y"|model.args.sizes=[64, 10]|model.class=my.models:Net.Inner'
    task = load_task("digits", [*sets.split("|"), "privacy.mechanism=dp-sgd", "privacy.epsilon=2"])
    assert (task.train.rounds, task.train.grad_clip, task.train.optimizer) == (7, 0.5, "adam")
    assert isinstance(task.train.learning_rate, float)
    assert task.data.target == "y"
    assert task.model.args == {"sizes": [64, 10]}
    assert (task.model.cls, task.privacy.epsilon) == ("my.models:Net.Inner", 2.0)
    assert refused("digits", f"train.grad_clip={'9' * 400}").startswith("train.grad_clip = 9999")
    line = refused("digits", "train.rounds=5\nx = 1")
    assert "train.rounds = '5 x = 1'" in line.replace("\\n", " "), "a line break adds no key"


def test_a_source_is_relative_to_the_file_that_names_it(task_file, tmp_path):
    path = task_file(MINIMAL + '[data]\nsource = "rows.csv"\n')
    assert load_task(path, []).data.source == str(tmp_path / "rows.csv")
    assert load_task(path, ["data.source=other.csv"]).data.source == "other.csv"
    assert load_task(task_file(MINIMAL + '[data]\nsource = "digits"\n'), []).data.source == "digits"


def test_canonical_parameters_are_canonical():
    task = load_task("digits", [])
    written = canonical_parameters(task, SHAPES, 4.0)
    parsed = json.loads(written)
    assert written == json.dumps(parsed, sort_keys=True, separators=(",", ":"))
    assert parsed["shapes"] == [["layers.0.weight", [64, 64]], ["layers.0.bias", [64]]]
    assert set(parsed) == {"task", "model", "data", "train", "privacy", "aggregation", "shapes"}
    assert parsed["data"] == {"test_fraction": 0.2}
    assert parsed["model"] == {"class": "node.models:MLP", "args": {"sizes": [64, 64, 10]}}


def test_a_nodes_own_matters_are_not_in_the_parameters():
    mine = canonical_parameters(load_task("digits", []), SHAPES, 4.0)
    own = 'data.source=mine.csv data.target=y data.features=["a"] aggregation.bits=32 train.weight_decay=-0.0'
    timeouts = (f"aggregation.{phase}_timeout_s=1" for phase in ("group", "shares", "sums"))
    for override in (*own.split(), *timeouts):
        assert canonical_parameters(load_task("digits", [override]), SHAPES, 4.0) == mine, override


@cases("""
    common => override
    => task.seed=1
    => task.name=other
    => model.args.sizes=[64,10]
    => model.class=a:B
    => data.test_fraction=0.3
    => train.rounds=5
    => train.grad_clip=1
    train.seconds=4 => train.seconds=5
    => aggregation.clip=2
    => aggregation.bits=16
    => aggregation.min_participants=4
    => privacy.mechanism=ldp
    aggregation.protocol=additive => aggregation.protocol=masked
    aggregation.protocol=masked => aggregation.dropouts=1
    aggregation.protocol=additive => aggregation.shares=ring
    aggregation.sample_cap=7 aggregation.weighting=samples => aggregation.sample_cap=8
    aggregation.sample_cap=7 aggregation.weighting=samples => aggregation.public_weights=true
""")
def test_what_a_swarm_must_agree_on_is_in_the_parameters(common, override):
    mine, theirs = (
        canonical_parameters(load_task("digits", sets), SHAPES, 4.0)
        for sets in (common.split(), [*common.split(), override])
    )
    assert theirs != mine
    assert describe_difference(mine, theirs).startswith(override.partition("=")[0])


def test_a_task_has_so_many_seconds_or_so_many_epochs(task_file):
    both = task_file(MINIMAL + "[train]\nepochs = 3\nseconds = 5\n")
    assert refused(both).startswith("train.seconds = 5 is refused beside train.epochs = 3")
    epochs, seconds = (task_file(f"{MINIMAL}[train]\n{one}\n") for one in ("epochs = 3", "seconds = 5"))
    assert load_task(epochs, ["train.seconds=9"]).train.seconds == 9, "an override replaces the other length"
    replaced = load_task(seconds, ["train.epochs=4"]).train
    assert (replaced.epochs, replaced.seconds) == (4, None)
    assert load_task(task_file(MINIMAL), []).train.epochs == 2


def test_only_the_length_that_counts_is_in_the_parameters():
    epochs, seconds = (
        json.loads(canonical_parameters(load_task("digits", [one]), SHAPES, 4.0))["train"]
        for one in ("train.epochs=2", "train.seconds=5")
    )
    assert (epochs["epochs"], "seconds" in epochs) == (2, False)
    assert (seconds["seconds"], "epochs" in seconds) == (5.0, False)


@pytest.mark.parametrize("length", ["train.seconds=5", "train.epochs=3"])
def test_the_task_of_a_model_file_can_be_read_again(length):
    task = load_task("digits", [length])
    assert read_task(task_table(task)).train == task.train


def test_a_difference_names_keys_and_both_values():
    mine = canonical_parameters(load_task("digits", []), SHAPES, 4.0)
    other = load_task("digits", ["train.epochs=3", "train.grad_clip=1", "task.seed=4", "aggregation.clip=2"])
    theirs = canonical_parameters(other, [("layers.0.weight", (64, 64))], 4.0)
    assert describe_difference(mine, theirs) == (
        'aggregation.clip is 4.0 here and 2.0 there; shapes.1 is ["layers.0.bias", [64]] here and absent '
        "there; task.seed is 0 here and 4 there; and 2 more"
    )
    assert describe_difference(mine, mine) == "the parameters are the same"


def test_nodes_with_different_lists_of_members_do_not_fit():
    task = load_task("digits", [])
    open_to_all, mine, theirs = (
        canonical_parameters(task, SHAPES, 4.0, roster=roster)
        for roster in (None, b"\x3e" * 32, b"\x77" * 32)
    )
    assert len({open_to_all, mine, theirs}) == 3
    assert describe_lists("Ward C", mine, theirs) == (
        "another list: Ward C runs with the list 7777…, you with 3e3e…"
    )
    assert describe_lists("h:1", mine, open_to_all) == "another list: h:1 runs without a list, you with 3e3e…"
    assert describe_lists("h:1", open_to_all, mine) == (
        "another list: h:1 runs with the list 3e3e…, you without one"
    )
    assert describe_lists("h:1", mine, mine) == describe_lists("h:1", "", mine) == ""


@pytest.mark.parametrize(
    "garbage",
    [
        *("", "{", "[]", "null", "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, "1" * 300_000, "\ud800"),
        *(
            '{"x\\n\\u001b[31m": [1, "\\u202e"]}',
            '{"shapes": 5}',
            '{"roster": 5}',
            '{"roster": "abc"}',
            '{"shapes": [5]}',
            '{"task": {"seed": NaN}}',
        ),
        json.dumps({"task": [None], "train": "x" * 999, "shapes": [["a", {}], [[], 1e999]]}),
    ],
)
def test_garbage_in_the_others_parameters(garbage):
    mine = canonical_parameters(load_task("digits", []), SHAPES, 4.0, roster=bytes(32))
    assert describe_lists("h:1", mine, garbage) in (
        "",
        "another list: h:1 runs without a list, you with 0000…",
    )
    told_of = describe_difference(mine, garbage)
    assert told_of.isprintable()
    assert len(told_of) < 600


@cases("""
    override => plain
    train.epochs=3 => True
    train.device=auto => True
    train.optimizer=adam => False
    train.schedule=linear => False
    train.loss=cross-entropy => False
    train.parameters=layers.* => False
    train.optimizer_args.nesterov=true => False
""")
def test_what_clients_in_one_batch_can_not_do_is_not_plain(override, plain):
    assert str(load_task("digits", [override]).train.plain) == plain
