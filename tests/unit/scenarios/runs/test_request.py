"""What the command line may change in a study, and one line for each thing that it may not."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from node.system.errors import ConfigError
from scenarios.clients.choices import MechanismChoice, RowChoice
from scenarios.data.images import MNIST_FILES
from scenarios.engines.choice import RaySection
from scenarios.federated.cell import FederatedCell
from scenarios.frame.spec import Request
from scenarios.own.tables import cell_of
from scenarios.runs.request import StudyRun, described, study_run
from scenarios.study import arms
from scenarios.study.arms import as_arm
from scenarios.study.sweep import Study
from tests.own_studies import PLAIN, SHRINKING, STUDY

OWN = f"scenario.mechanism={SHRINKING}"
TAU = "scenario.parameters={clients_per_round=3, tau=0}"
TWO = "scenario.parameters={clients_per_round = 2}"
MEDIAN = "scenario.aggregator=mechanisms.servers.robust:coordinate_median"
FORGER = "scenario.attack=tests.own_attacks:Forger"
ON_MNIST = replace(STUDY, data_sets=("mnist",), arms=(replace(PLAIN, rows=RowChoice("mnist")),))


def run(*overrides: str, study: Study = STUDY, **fields: Any) -> StudyRun:
    return study_run(study, Request(overrides=overrides or None, **fields))


def names(run: StudyRun) -> list[str]:
    return [arm.arm for arm in run.arms]


def test_a_full_run_has_all_arms_and_seeds_and_a_quick_one_those_of_its_form():
    asked = run()
    assert names(asked) == ["plain", "noised"]
    assert asked.seeds == (0, 1, 2)
    assert [(cell.arm, cell.seed) for cell in asked.cells[:3]] == [("plain", 0), ("noised", 0), ("plain", 1)]
    assert (asked.engine.name, asked.engine.jobs, asked.engine.ray) == ("inline", None, RaySection())
    assert asked.given == ()
    asked = run(quick=True)
    assert names(asked) == ["plain"]
    assert asked.seeds == (0, 1)
    assert asked.arms[0].rounds == 2
    assert run(quick=True, rounds=5).arms[0].rounds == 5
    assert described(run(jobs=1)) == described(run(jobs=2))
    assert described(run()) != described(run(seed=1))
    assert described(run()) != described(run("train.epochs=2"))
    assert described(run())["arms"]["plain"]["train"]["rounds"] == 8


def test_arms_by_name_and_pattern_also_outside_a_full_run():
    assert names(run("scenario.arms=noised")) == ["noised"]
    assert names(run("scenario.arms=noi*, plain", quick=True)) == ["plain", "noised"]
    assert names(run('scenario.arms=["noi*"]')) == ["noised"]
    usual = replace(STUDY, usual=("pl*",))
    assert names(run(study=usual)) == ["plain"]
    assert names(run("scenario.arms=noised", study=usual)) == ["noised"]
    assert names(run(quick=True, study=usual)) == ["plain"]


def test_peers_rounds_seeds_and_keys_of_a_task_go_to_every_arm() -> None:
    asked = run(
        "train.learning_rate=0.25", "scenario.seeds=4", OWN, TWO, peers=6, rounds=9, seed=7, engine="inline"
    )
    assert names(asked) == ["plain", "noised", "own"]
    assert asked.seeds == (7, 8, 9, 10)
    for arm in asked.arms:
        cell = as_arm(arm).cell
        assert isinstance(cell, FederatedCell)
        assert (cell.clients.count, cell.rounds, cell.train.learning_rate) == (6, 9, 0.25)
    assert asked.given == (
        *("--peers", "6", "--rounds", "9", "--seed", "7", "--engine", "inline", "--set"),
        *("train.learning_rate=0.25", "--set", "scenario.seeds=4", "--set", OWN, "--set", TWO),
    )


def test_an_own_mechanism_by_its_name_or_import_path_is_an_arm_more():
    asked = run("scenario.mechanism=fedadam", "scenario.parameters={clients_per_round = 2, tau = 0.1}")
    assert names(asked) == ["plain", "noised", "own"]
    (own,) = (arm for arm in asked.arms if arm.arm == "own")
    assert own.factors == arms.OWN
    assert isinstance(own.cell, FederatedCell)
    assert own.cell.mechanism == MechanismChoice("fedadam", {"clients_per_round": 2, "tau": 0.1})
    own = run(OWN, TWO, quick=True).arms[-1]
    assert own.factors == arms.OWN
    assert isinstance(own.cell, FederatedCell)
    assert (own.arm, own.cell.mechanism.path, own.cell.rounds) == ("own", SHRINKING, 2)
    assert own.cell.mechanism.parameters == {"clients_per_round": 2}


def test_an_own_aggregator_is_an_arm_more_and_an_own_attack_is_in_all_arms() -> None:
    asked = run(MEDIAN, FORGER, "scenario.attackers=0.4", "scenario.attack_parameters={factor = 2.0}")
    assert names(asked) == ["plain", "noised", "own"]
    cells = [cell for cell in asked.cells if cell.seed == 0 and isinstance(cell, FederatedCell)]
    assert [cell.attackers.of for cell in cells] == [0.4] * 3
    assert cells[-1].mechanism.parameters["path"] == "mechanisms.servers.robust:coordinate_median"
    assert described(asked)["arms"]["plain"]["attackers"]["forgery"]["parameters"] == {"factor": 2.0}
    assert run().cells[0].attackers == PLAIN.attackers


def test_a_study_without_clients_or_an_own_arm_and_one_without_ray_say_so(monkeypatch):
    bare = replace(STUDY, own=None)
    for override, name in ((OWN, "mechanism"), (MEDIAN, "aggregator")):
        with pytest.raises(ConfigError, match=f"scenario.{name}: study small makes no arm of it"):
            run(override, study=bare)
    swarm = cell_of(
        "swarm", {"peers": 3, "data": {"source": "digits"}, "model": {"class": "node.models:MLP"}}
    )
    with pytest.raises(ConfigError, match="arm swarm has no clients of a server, which attack"):
        run(FORGER, study=replace(STUDY, arms=(swarm,)))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"Ray is not installed; `pip install 'murmuration-node\[ray\]'`"):
        run(engine="ray")


@pytest.mark.parametrize(
    ("overrides", "fields", "said"),
    [
        ((), {"rounds": 0}, "--rounds 0: allowed are 1 and more"),
        ((), {"peers": 0}, "--peers 0: allowed are 1 and more"),
        ((), {"peers": 456}, "plain: 456 clients by partition iid"),
        ((), {"seed": -1}, "--seed -1: allowed are 0 to 2147483648"),
        ((), {"jobs": 0}, "--jobs 0: allowed are 1 to 256"),
        ((), {"jobs": 257}, "--jobs 257: allowed are 1 to 256"),
        (("scenario.arms=plane",), {}, "scenario.arms = 'plane' is no arm of small; allowed: plain, noised"),
        (("scenario.arms=",), {}, "scenario.arms"),
        (("scenario.arms=plain,",), {}, "scenario.arms"),
        (("scenario.seeds=1",), {}, "scenario.seeds = 1"),
        (("scenario.seed=1",), {}, "scenario.seed"),
        (("scenario.parameters={a = 1}",), {}, "scenario.parameters has no effect without scenario.mech"),
        (("scenario.mechanism=fed avg",), {}, "scenario.mechanism = 'fed avg' is refused; allowed: the name"),
        (("scenario.mechanism=fedsgd",), {}, "mechanism 'fedsgd' is unknown; allowed: fedavg, fedavgm, feda"),
        (("scenario.mechanism=fedadam", TAU), {}, "tau = 0 is not"),
        (("scenario.mechanism=nowhere.at:All",), {}, "own: "),
        (("scenario.mechanism=tests.own_mechanisms:Nothing",), {}, "has no attribute 'Nothing'"),
        (("scenario.mechanism=tests.own_mechanisms:Raising",), {}, "the noise machine is out of order"),
        (("scenario.mechanism=tests.own_mechanisms:Unfinished",), {}, "it has no after_batch, broadcast"),
        ((OWN,), {}, "clients_per_round"),
        ((OWN, TWO, MEDIAN), {}, "scenario.mechanism and scenario.aggregator are both given"),
        (("scenario.aggregator_parameters={a = 1}",), {}, "has no effect without scenario.aggregator"),
        (("scenario.aggregator=no.where:mean",), {}, "own: mechanism"),
        (("scenario.attackers=0.3",), {}, "have no effect without scenario.attack; name one"),
        (("scenario.attack_parameters={a = 1}",), {}, "have no effect without scenario.attack; name one"),
        ((FORGER, "scenario.attackers=0"), {}, "scenario.attackers = 0 is refused"),
        ((FORGER, "scenario.attack_parameters={x = 1}"), {}, "attack 'tests.own_attacks:Forger': "),
        (("train.epoch=1",), {}, "train.epoch"),
        (("train.epochs=none",), {}, "train.epochs = 'none'"),
        (("privacy.epsilon=1",), {}, "--set privacy.epsilon: this scenario does not have it"),
        (("ray.adress=auto",), {"engine": "ray"}, "ray.adress"),
        (("ray.address=here",), {"engine": "ray"}, "ray.address = 'here'"),
        (("ray.address=auto",), {}, "--set ray.*: engine inline has no such keys"),
        (("ray.working_dir=/no/such",), {"engine": "ray"}, "ray.working_dir = '/no/such' is no folder"),
    ],
)
def test_what_can_not_be_asked_for_is_one_line(overrides, fields, said):
    with pytest.raises(ConfigError) as raised:
        run(*overrides, **fields)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.status == 2


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "head:6379", "ray://head.example:10001"])
def test_addresses_of_a_cluster(address: str) -> None:
    pytest.importorskip("ray")
    assert run(f"ray.address={address}", engine="ray").engine.ray.address == address


def test_a_data_set_that_is_not_there_or_damaged_is_named_with_how_to_get_it(tmp_path):
    with pytest.raises(ConfigError) as raised:
        run(study=ON_MNIST, data_dir=tmp_path)
    said = str(raised.value)
    assert said.startswith("data set mnist: ")
    assert f"python -m scenarios data mnist --data-dir {tmp_path}" in said
    assert "or name a folder that has mnist/ with --data-dir" in said
    (tmp_path / "mnist").mkdir()
    for content, said in ((b"", "ends within its header"), (b"idx", "Not a gzipped file")):
        for name in MNIST_FILES:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match="train-images-idx3-ubyte") as raised:
            run(study=ON_MNIST, data_dir=tmp_path)
        assert said in str(raised.value)
