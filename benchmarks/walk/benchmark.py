"""Walk: whether a swarm of three hospitals learns with privacy as much as central DP-SGD on all their rows.

Each seed makes three exports, as hospitals' systems write them. node.init proposes a task for the first file;
all three agree on scales, learn and predict. Real processes do this, and nobody changes a setting of the
task. A trusted server's DP-SGD learns from the same rows in one process, at the same stated epsilon and
several learning rates. The swarm stands beside the rate that is best on the new rows, which favours the
server.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

from benchmarks.spec import Benchmark, Row, check_counts
from node.system.errors import ConfigError
from scenarios.frame.children import warm_up

ROWS, QUICK_ROWS = 4000, 1000
EPSILON = 8.0
SEEDS, QUICK_SEEDS = 5, 1
FACTORS = (0.5, 1.0, 2.0)
CLOSE = 0.02
"""How far the swarm's AUC may be below central DP-SGD's."""
SERVERS = ("MLP", "Linear")


@dataclass(frozen=True)
class Found:
    """What one seed's walk found.

    `swarm`, `central`, `plain`: the AUC of the swarm, of central DP-SGD by model and factor of the table's
    rate, and of logistic regression without privacy. The rest: the swarm's model and rate, and the epsilon of
    its run.
    """

    seed: int
    swarm: float
    central: Mapping[str, Mapping[float, float]]
    plain: float
    model: str
    learning_rate: float
    epsilon_spent: float


@dataclass(frozen=True)
class Verdict:
    """The mean AUC of the swarm, and of a server with `model` at the `factor` that is best for it."""

    model: str
    factor: float
    swarm: float
    central: float
    standard_error: float | None

    @property
    def difference(self) -> float:
        """The swarm's AUC minus the server's."""
        return self.swarm - self.central

    @property
    def holds(self) -> bool:
        """Whether the swarm is close enough."""
        return self.difference >= -CLOSE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, help=f"walks (default {SEEDS}; quick {QUICK_SEEDS})")
    parser.add_argument("--epsilon", type=float, default=EPSILON, help=f"stated (default {EPSILON:g})")


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each walk, then a verdict for each of the server's models."""
    check_counts(arguments, "seeds")
    if not 0.01 <= arguments.epsilon <= 100:
        raise ConfigError(f"--epsilon {arguments.epsilon:g}: allowed are 0.01 to 100")
    seeds = arguments.seeds or (QUICK_SEEDS if arguments.quick else SEEDS)
    return _rows(range(seeds), QUICK_ROWS if arguments.quick else ROWS, arguments.epsilon)


def _rows(seeds: Sequence[int], rows: int, epsilon: float) -> Iterator[Row]:
    found = []
    for seed in seeds:
        found.append(measure_walk(seed, rows, epsilon))
        yield _walk_row(found[-1], rows, epsilon)
    for verdict in verdicts(found):
        yield _verdict_row(verdict, rows, epsilon, len(found))


def measure_walk(seed: int, rows: int, epsilon: float) -> Found:
    """Let the swarm and the servers learn from one seed's rows. Raises UserError if a command fails."""
    warm_up()  # the fork-server loads beside this process
    from benchmarks.walk.central import auc, central_auc, plain_auc  # noqa: PLC0415 - loads torch
    from benchmarks.walk.real import walk  # noqa: PLC0415
    from benchmarks.walk.rows import hospitals  # noqa: PLC0415

    sites = hospitals(rows, seed)
    with tempfile.TemporaryDirectory() as folder:
        swarm = walk(Path(folder), sites, epsilon)
    return Found(
        seed=seed,
        swarm=auc(sites, swarm.chances),
        central={
            kind: {factor: central_auc(sites, kind, epsilon, factor, seed) for factor in FACTORS}
            for kind in SERVERS
        },
        plain=plain_auc(sites),
        model=swarm.model,
        learning_rate=swarm.learning_rate,
        epsilon_spent=swarm.epsilon_spent,
    )


def verdicts(found: Sequence[Found]) -> list[Verdict]:
    """Return a verdict for each of the server's models."""
    made = []
    for kind in SERVERS:
        by_factor = {factor: [one.central[kind][factor] for one in found] for factor in FACTORS}
        best = max(FACTORS, key=lambda factor: mean(by_factor[factor]))
        differences = [one.swarm - central for one, central in zip(found, by_factor[best], strict=True)]
        error = stdev(differences) / sqrt(len(found)) if len(found) > 1 else None
        swarm, central = mean(one.swarm for one in found), mean(by_factor[best])
        made.append(Verdict(kind, best, swarm, central, error))
    return made


def _walk_row(found: Found, rows: int, epsilon: float) -> Row:
    servers = ", ".join(
        f"{kind} {'/'.join(f'{value:.4f}' for value in values.values())}"
        for kind, values in found.central.items()
    )
    text = (
        f"seed {found.seed}  3 x {rows} rows, epsilon {epsilon:g}: swarm ({found.model}) {found.swarm:.4f}, "
        f"central at {'/'.join(f'{factor:g}' for factor in FACTORS)} times the rate: {servers}; "
        f"no privacy {found.plain:.4f}"
    )
    return Row(text, {"kind": "walk", "rows": rows, "epsilon": epsilon, **asdict(found)})


def _verdict_row(verdict: Verdict, rows: int, epsilon: float, seeds: int) -> Row:
    error = "" if verdict.standard_error is None else f" ± {verdict.standard_error:.4f}"
    text = (
        f"AUC {verdict.swarm:.4f}, central DP-SGD, {verdict.model}, {verdict.factor:g} times the rate: "
        f"{verdict.central:.4f}; difference {verdict.difference:+.4f}{error}  "
        f"{'✓' if verdict.holds else '✗'} at least {-CLOSE:g}"
    )
    judged = {"difference": verdict.difference, "at_least": -CLOSE, "holds": verdict.holds, "seeds": seeds}
    return Row(text, {"kind": "verdict", "rows": rows, "epsilon": epsilon, **asdict(verdict), **judged})


WALK = Benchmark(add_options, run)
