"""Studies as files: what is read, and one line for each wrong key or value."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from node.system.errors import ConfigError
from scenarios.data.own import own_dataset
from scenarios.own.file import read_study
from scenarios.own.opened import checked, opened
from scenarios.study.sweep import Quick
from tests.own_studies import NOISED, PLAIN, STUDY
from tests.unit.scenarios.study.made_up import TWO, sweep

HEAD = """
name = "two"
seeds = 4
peers = 3
[data]
source = "rows.csv"
target = "y"
[model]
class = "node.models:MLP"
args = {sizes = [2, 2]}
[train]
rounds = 3
[quick]
rounds = 1
"""
ARMS = """
[[arms]]
grid = {privacy.mechanism = ["ldp", "dp-sgd"], privacy.epsilon = [1, 8]}
[[arms]]
factors = {mechanism = "none"}
name = "none"
"""
CLAIM = '[[claims]]\nclaim = "rises"\nover = "epsilon"\n'
LEAST = '[[claims]]\nclaim = "at_least"\nbound = '


def study(text: str, folder: Path):
    (folder / "study.toml").write_text(text)
    return read_study(folder / "study.toml")


def test_a_file_gives_a_study_with_paths_from_its_folder_and_one_arm_without_arms(tmp_path):
    found = study(HEAD + ARMS + CLAIM, tmp_path)
    assert (found.name, found.seeds, found.quick) == ("two", 4, Quick(2, 1))
    assert [arm.arm for arm in found.arms][-2:] == ["dp-sgd-epsilon8", "none"]
    assert found.arms[0].cell.task.data.source == str(tmp_path / "rows.csv")
    assert found.arms[-1].factors == {"mechanism": "none"}
    assert found.claims[0].name == "The figure rises as epsilon grows"
    assert [arm.arm for arm in study(HEAD, tmp_path).arms] == ["arm"]


ONE = 'one = {mechanism = "ldp"}\nother = {mechanism = "none"}'


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        ('"falls"\nover = "epsilon"\nwhere = {mechanism = "dp-sgd"}', None),
        ('"at_least"\nbound = 0.3\nname = "Mine"', True),
        ('"at_least"\nbound = 0.35', False),
        ('"above"\nbound = 0.27', True),
        ('"above"\nbound = 0.3', False),
        ('"below"\nbound = 0.3\nwhere = {epsilon = 1}', False),
        ('"below"\nbound = 0.35\nwhere = {epsilon = 1}', True),
        ('"apart"\nhigher = {mechanism = "none"}\nlower = {mechanism = "ldp"}', True),
        ('"apart"\nhigher = {mechanism = "ldp"}\nlower = {mechanism = "none"}', False),
        (f'"within"\nby = 0.5\n{ONE}', True),
        (f'"within"\nby = 0.2\n{ONE}', False),
        ('"rises"\nover = "epsilon"\nwhere = {mechanism = "ldp"}', True),
        ('"never_falls"\nover = "epsilon"\nwhere = {mechanism = "ldp"}', True),
        ('"never_falls"\nover = "epsilon"\nfact = "lost"', False),
        (f'"no_worse"\n{ONE}', False),
        ('"no_worse"\none = {mechanism = "none"}\nother = {mechanism = "ldp"}', True),
        (f'"alike"\n{ONE}', False),
        ('"alike"\none = {mechanism = "none"}\nother = {mechanism = "ldp"}\nfact = "epsilon"', None),
        ('"falls"\nover = "epsilon"\nwhere = {mechanism = "ldp"}\nfact = "lost"', True),
    ],
)
def test_claims_by_maker_are_judged(tmp_path, claim, holds):
    (made,) = study(f"{HEAD}{ARMS}[[claims]]\nclaim = {claim}", tmp_path).claims
    verdict = made.judge(sweep(TWO))
    assert (verdict and verdict.holds) is holds
    assert made.name == "Mine" or "Mine" not in claim


def test_the_best_inside_needs_three_levels(tmp_path):
    inside = '[[claims]]\nclaim = "best_inside"\nover = "epsilon"'
    with pytest.raises(ConfigError, match="with 3 levels or more"):
        study(HEAD + ARMS + inside, tmp_path)
    assert study(HEAD + ARMS.replace("[1, 8]", "[1, 8, 9]") + inside, tmp_path).claims


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "is not valid TOML"),
        (HEAD.replace('name = "two"', ""), "name is missing; allowed: letters"),
        (HEAD.replace('"two"', '"a/b"'), "name = 'a/b' is refused; allowed: letters, digits"),
        (HEAD.replace("seeds = 4", "seeds = 1"), "seeds = 1 is refused; allowed: a whole number from 2"),
        (HEAD.replace("seeds = 4", "seed = 4"), "'seed' is not a known key (did you mean 'seeds'?)"),
        (HEAD.replace("[quick]\nrounds", "[quick]\nround"), "'quick.round' is not a known key"),
        (HEAD.replace("rounds = 3", "rounds = -3"), "arms[1]: arm arm: train.rounds = -3"),
        (HEAD.replace("peers = 3", "peers = 0"), "peers = 0 is refused"),
        (HEAD + "[[arms]]\ngird = {}", "'arms[1].gird' is not a known key (did you mean 'grid'?)"),
        (HEAD + "[arms]\ngrid = {}", "arms = {'grid': {}} is refused; allowed: tables, each under [[arms]]"),
        (HEAD + "[[arms]]\ngrid = {epsilon = [1]}", "arms[1]: 'epsilon' is no key of an arm"),
        (HEAD + "[[arms]]\n[[arms]]", "two arms are called arm; give their [[arms]] a `name` each"),
        (HEAD + ARMS + CLAIM.replace("rises", "grows"), "claims[1].claim = 'grows' is refused; allowed: 'f"),
        (HEAD + ARMS + '[[claims]]\nclaim = "falls"', "claims[1].over is missing for claim 'falls'"),
        (HEAD + ARMS + CLAIM + "bound = 3", "claims[1].bound has no effect on claim 'rises'; it takes over"),
        (HEAD + ARMS + CLAIM.replace("silon", "s"), "claims[1]: no arm has the factor 'eps'; allowed: mech"),
        (HEAD + ARMS + CLAIM + "where = {mechanism = []}", "claims[1].where = {'mechanism': []} is refused"),
        (HEAD + ARMS + LEAST + '1\nwhere = {mechanism = "rpfl"}', "claims[1]: no arm has mechanism rpfl"),
        (HEAD + ARMS + '[[claims]]\nclaim = "alike"\none = {}', "claims[1].other is missing for claim"),
        (
            HEAD + ARMS + '[[claims]]\nclaim = "apart"\nhigher = {}\nlower = {}\nwhere = {epsilon = 1}',
            "claims[1].where has no effect on claim 'apart'",
        ),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path, text, said):
    with pytest.raises(ConfigError) as raised:
        study(text, tmp_path)
    assert str(tmp_path / "study.toml") in str(raised.value)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_study_by_import_path_or_a_file_that_is_not_there(tmp_path):
    scenario = opened("tests.own_studies:STUDY")
    assert (scenario.name, scenario.command_line.target) == ("small", "tests.own_studies:STUDY")
    assert opened("tests.sweeps:SMALL").name == "small"
    with pytest.raises(ConfigError, match="is a int; allowed: a "):
        opened("tests.own_attacks:NO_FUNCTION")
    with pytest.raises(ConfigError, match="cannot be imported"):
        opened("no.where:STUDY")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        opened(str(tmp_path / "no.toml"))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"name": "a b"}, "the name 'a b' is refused"),
        ({"arms": (PLAIN, replace(NOISED, arm="a/b"))}, "the name 'a/b' is refused"),
        ({"arms": (PLAIN, PLAIN)}, "2 arms are called plain"),
        ({"arms": ()}, "the study has no arms"),
        ({"seeds": 1}, "seeds = 1 is refused; allowed: 2 and more"),
    ],
)
def test_a_study_that_can_not_be_run_is_one_line(bad, said):
    with pytest.raises(ConfigError, match=said):
        checked(replace(STUDY, **bad), "mine:STUDY")


def test_own_rows_have_the_test_rows_of_nodes(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(50, 2)), np.arange(50) % 2])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,y", comments="")
    (arm,) = study(HEAD + "[server]\n", tmp_path).arms
    data = own_dataset(arm.cell.rows.dataset, 3)
    assert (data.train_x.shape, data.test_x.shape, data.classes) == ((40, 2), (10, 2), 2)
    assert (data.train_y.dtype, data.clients) == (np.int64, None)
    other = own_dataset(arm.cell.rows.dataset, 4)
    assert not np.array_equal(other.test_x, data.test_x)
    rows[0, 2] = 0.5
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,y", comments="")
    with pytest.raises(ConfigError, match="clients of a server learn classes"):
        own_dataset(arm.cell.rows.dataset, 3)
