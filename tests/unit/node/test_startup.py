"""A command loads nothing that it does not need: imports take half of a short run."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from benchmarks.catalogue import BENCHMARKS
from node.cli.commands import COMMANDS

ROOT = Path(__file__).parents[3]
HEAVY = ("torch", "scipy", "sklearn", "dp_accounting", "pyarrow", "plotly", "PIL")
NETWORK = ("aiohttp", "prometheus_client", "ray", "playwright")
BELOW = {
    "scenarios.__main__": [("list",), ("run",), ("data",)],
    "benchmarks.__main__": [(name,) for name in BENCHMARKS],
}
"""Commands of commands. A benchmark may load what takes less than a second to import."""


def loaded(code: str, names: tuple[str, ...], cwd: Path) -> list[str]:
    """Returns which of `names` a fresh Python has loaded after `code`."""
    asked = f"\nimport sys\nprint([name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code) + asked],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return eval(ended.stderr.splitlines()[-1])


def test_help_loads_nothing_heavy(tmp_path):
    code = f"""
        from node.cli.murmuration import main
        for name in {[command.name for command in COMMANDS]!r}:
            assert main([name, "--help"]) == 0
    """
    assert loaded(code, (*HEAVY, *NETWORK), tmp_path) == []


@pytest.mark.parametrize("module", BELOW)
def test_help_of_what_a_command_offers_does_not_load_torch(tmp_path, module):
    code = f"""
        from {module} import main
        for words in {BELOW[module]!r}:
            assert main([*words, "--help"]) == 0
    """
    assert loaded(code, ("torch", "sklearn", "dp_accounting", "pyarrow", *NETWORK[1:]), tmp_path) == []


def test_the_list_of_commands_their_completion_and_a_tracker_load_no_torch(tmp_path):
    """A tracker is meant for the smallest machine there is, and torch takes 180 MB."""
    code = """
        import node.tracker.serve
        from node.cli.murmuration import main
        for argv in ([], ["--help"], ["--version"], ["completion", "bash"]):
            main(argv)
    """
    assert loaded(code, ("torch", "sklearn", "dp_accounting", "pyarrow"), tmp_path) == []


PEERS = ["--peers", "127.0.0.1:1,127.0.0.1:2", "--shard", "0/3"]
WRONG = [
    ("node.__main__", ["--peers", "127.0.0.1"]),
    ("node.__main__", ["--peers", "127.0.0.1:1,127.0.0.1:2", "--task", "nowhere.toml"]),
    ("node.init.__main__", ["--data", "nowhere.csv", "--rounds", "none"]),
    ("node.check.__main__", ["nowhere.toml"]),
    ("node.predict.__main__", ["--data", "nowhere.csv"]),
]

PLACES = [
    ("node.__main__", [*PEERS, "--peers", "nowhere.invalid:1"]),
    ("node.__main__", [*PEERS, "--allow", "nowhere.txt"]),
    ("node.__main__", [*PEERS, "--names", "nowhere.txt"]),
    ("node.__main__", [*PEERS, "--listen", "192.0.2.1:9001", "--open"]),
    ("node.__main__", [*PEERS, "--key", "wrong.key"]),
    ("node.__main__", [*PEERS, "--out", "lost"]),
]


def test_a_wrong_argument_is_told_before_anything_heavy_is_loaded(tmp_path):
    """So are addresses, lists, keys and folders of a node; wrong data are told before torch is loaded."""
    (tmp_path / "wrong.key").write_text("no key\n")
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "history.jsonl").write_text("{}\n")
    code = f"""
        from importlib import import_module
        for module, argv in {WRONG!r}:
            assert import_module(module).main(argv) in (1, 2), argv
    """
    assert loaded(code, HEAVY, tmp_path) == []
    code = code.replace(repr(WRONG), repr(PLACES))
    assert loaded(code, ("torch", "dp_accounting", "pyarrow", "PIL"), tmp_path) == []
    code = """
        from node.init.__main__ import main
        assert [main(["--data", data]) for data in ("nowhere.csv", "notes.doc")] == [2, 2]
    """
    assert loaded(code, ("torch", "dp_accounting"), tmp_path) == []


def test_a_round_with_privacy_loads_neither_torchs_compiler_nor_sympy(tmp_path):
    code = """
        import threading
        from node.task.load import load_task
        from node.data.dataset import load_dataset
        from node.runtime.privacy.budget import make_mechanism
        from node.training.build import build_model
        from node.training.gradient_steps import steps_by
        from node.training.trainer import Trainer, shapes
        from mechanisms.noise.randomness import SystemWords

        task = load_task("digits", ["privacy.mechanism=dp-sgd", "privacy.epsilon=8", "train.epochs=1"])
        dataset = load_dataset(task, None, (0, 5))
        model = build_model(task, dataset)
        mechanism = make_mechanism(task, shapes(model, "*"), len(dataset.train_y))
        trainer = Trainer(model, task.train, dataset, 0, steps_by(mechanism.gradient, SystemWords()))
        trainer.evaluate(trainer.train(trainer.vector(), 1, threading.Event()).vector)
    """
    assert loaded(code, ("torch._dynamo", "sympy"), tmp_path) == []


def test_an_epsilon_of_sampled_steps_loads_no_statistics(tmp_path):
    """A swarm's nodes compute one at their start, and one a round."""
    code = """
        from mechanisms.accounting.ledger import Ledger, SampledGaussian
        from mechanisms.accounting.ledger import privacy_spent, sampled_noise_multiplier
        z = sampled_noise_multiplier(3.0, 1e-5, 0.1, 100)
        assert 2.9 < privacy_spent(Ledger.of([SampledGaussian(z, 0.1, 100)]), 1e-5).epsilon <= 3.0
    """
    assert loaded(code, ("torch", "dp_accounting", "scipy.stats", "scipy.signal"), tmp_path) == []
