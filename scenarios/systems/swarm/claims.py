"""Scenario `swarm`: real peers learn the handwritten digits together; what it buys each of them.

It makes the product's own claims: that a swarm agrees on one model, that this model is far better than what
any peer gets from its own data, and nearly as good as if all had pooled their data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from node.runtime.record.figures import AGGREGATED
from node.system.errors import ConfigError
from node.task.load import load_task, overridden
from node.task.rules import read_section
from node.task.sections import Task
from node.task.shared_noise_keys import is_distributed
from node.training.figures.metric_words import METRIC_NAMES, value_text
from protocol.wire.limits import MAX_MEMBERS
from scenarios.catalogue import SCENARIOS
from scenarios.engines.choice import EngineChoice, RaySection
from scenarios.frame.spec import Claim, CommandLine, Json, Presentation, Request, Scenario, Table, Verdict
from scenarios.frame.work import Do
from scenarios.runs.request import chosen_engine
from scenarios.study.client_accuracy import SPREAD, TENTH, WORST
from scenarios.study.costs import DOWN, UP
from scenarios.study.skew import BY_CHANCE, DISTANCE, FARTHEST, FEWEST, MOST
from scenarios.swarms.baselines import Curve, do_work, run_baselines, run_replays
from scenarios.swarms.cells import common_facts
from scenarios.swarms.history import PHASES
from scenarios.swarms.nodes import PeerRun, SwarmPlan, Tell, checked_peers, run_swarm
from scenarios.swarms.progress import shown
from scenarios.swarms.replay import datasets_of
from scenarios.swarms.results import BASE_RATE, SwarmResults, mean, phase_mean
from scenarios.systems.swarm import charts, privacy

TASK = "digits"
PEERS = 5
ENGINES = ("processes", "ray")
"""The first one is the usual one."""
QUICK_ROUNDS = 5
ACCURACY_AT_LEAST = 0.94
GAIN_AT_LEAST_POINTS = 8.0
LOSS_AT_MOST_POINTS = 3.0
MEGABYTE = 1e6


@dataclass(frozen=True)
class SwarmConfiguration:
    """A swarm that can be run: what the command line asked for, judged."""

    task: Task
    local: Task
    """The task with which a peer trains alone: `task`, unless its members share the noise of single steps."""
    peers: int
    rounds: int
    overrides: tuple[str, ...]
    engine: EngineChoice


def plan(request: Request) -> SwarmConfiguration:
    """Judge a request. Raises ConfigError, one line that says what is allowed."""
    mine = [override for override in request.overrides or () if _key(override).startswith("ray.")]
    section = read_section(RaySection, "ray", overridden(mine).get("ray", {}))
    engine = chosen_engine(request, section, ENGINES[0])
    overrides, peers = _overrides(request), PEERS if request.peers is None else request.peers
    task = _task(overrides, peers)
    peers = checked_peers(task, peers)
    usual = QUICK_ROUNDS if request.quick else task.train.rounds
    rounds = usual if request.rounds is None else request.rounds
    if rounds < 1:
        raise ConfigError(f"--rounds {rounds}: allowed are 1 and more")
    return SwarmConfiguration(
        task, _local(task, overrides), peers, rounds, tuple(request.overrides or ()), engine
    )


def _task(overrides: tuple[str, ...], peers: int) -> Task:
    """The task; where members share noise, a group has all peers, unless the request says otherwise."""
    task, named = load_task(TASK, overrides), {*map(_key, overrides)}
    if not is_distributed(task) or named & {"aggregation.min_participants", "privacy.honest"}:
        return task
    return load_task(TASK, (*overrides, f"aggregation.min_participants={min(peers, MAX_MEMBERS)}"))


def _local(task: Task, overrides: tuple[str, ...]) -> Task:
    """The task of local training: without the keys of `[train]` and `[privacy]` for shared steps."""
    if not is_distributed(task):
        return task
    kept = ("privacy.epsilon", "privacy.delta")
    of_steps = ("train.", "privacy.", "aggregation.min_participants")
    mine = [one for one in overrides if _key(one) in kept or not _key(one).startswith(of_steps)]
    return load_task(TASK, (*mine, "privacy.mechanism=dp-sgd"))


def _key(override: str) -> str:
    """The key of a SECTION.KEY=VALUE."""
    return override.partition("=")[0].strip()


def _overrides(request: Request) -> tuple[str, ...]:
    given = tuple(override for override in request.overrides or () if not _key(override).startswith("ray."))
    for override in given:
        if override.startswith("scenario."):
            raise ConfigError(
                f"--set {override}: scenario swarm has no keys of its own; task keys are allowed"
            )
        if request.seed is not None and _key(override) == "task.seed":
            raise ConfigError(f"--set {override}: --seed {request.seed} sets task.seed too; give one of them")
    return given if request.seed is None else (*given, f"task.seed={request.seed}")


def describe(configuration: SwarmConfiguration) -> Json:
    """The configuration as JSON; two runs with the same may share a folder."""
    return {
        "peers": configuration.peers,
        "rounds": configuration.rounds,
        "seed": configuration.task.task.seed,
        "engine": configuration.engine.name,
        "task": asdict(configuration.task),
    }


def again(configuration: SwarmConfiguration) -> tuple[str, ...]:
    """The arguments that give this configuration again."""
    kept = [text for text in configuration.overrides if _key(text) != "task.seed"]
    seed = configuration.task.task.seed
    numbers = {"--peers": configuration.peers, "--rounds": configuration.rounds, "--seed": seed}
    named = [text for name, number in numbers.items() for text in (name, str(number))]
    if configuration.engine.name != ENGINES[0]:
        named += ["--engine", configuration.engine.name]
    return (*named, *(text for override in kept for text in ("--set", override)))


@dataclass(frozen=True)
class Place:
    """Where a swarm runs, and where baselines and replays do."""

    run_swarm: Callable[[SwarmPlan, Tell], tuple[PeerRun, ...]]
    do: Do


@contextmanager
def placed(engine: EngineChoice) -> Iterator[Place]:
    """The place that the engine means: processes of this machine, or tasks of a cluster. Raises UserError."""
    if engine.name != "ray":
        yield Place(run_swarm, do_work)
        return
    from scenarios.engines.ray import do_in_cluster  # noqa: PLC0415  an extra, and a slow import
    from scenarios.engines.ray_cluster import connected  # noqa: PLC0415
    from scenarios.engines.ray_swarm import run_swarm_in_cluster  # noqa: PLC0415

    with connected(engine.ray.address, engine.ray.working_dir, None) as at_once:
        yield Place(run_swarm_in_cluster, partial(do_in_cluster, at_once=at_once))


def execute(configuration: SwarmConfiguration, folder: Path, console: Console) -> SwarmResults:
    """Run the peers, then the baselines: one after the other, so that the peers' seconds are their own."""
    swarm = SwarmPlan(configuration.task, configuration.peers, configuration.rounds, folder)
    started_s = time.monotonic()
    with placed(configuration.engine) as place, shown(console, swarm.peers, swarm.rounds) as display:
        display.stage(f"starting {swarm.peers} peers")
        peers = place.run_swarm(swarm, display.peers)
        swarm_s = time.monotonic() - started_s
        display.stage("training the baselines: each peer alone, and all data pooled")
        alone = replace(swarm, task=configuration.local)
        baselines = run_baselines(alone, display, place.do)
        if configuration.task.privacy.mechanism != "none":
            display.stage("replaying the same swarm under the other privacy mechanisms")
        replays = run_replays(alone, configuration.task.privacy.mechanism, display, place.do)
    facts, _ = common_facts(swarm, peers, datasets_of(swarm.task, swarm.peers))
    return SwarmResults(swarm.rounds, peers, baselines, replays, swarm_s, facts)


def same_model(results: SwarmResults) -> Verdict:
    """Every peer ends with the same base."""
    digests = {peer.summary.base_digest for peer in results.peers}
    return Verdict(len(digests) == 1, {"peers": len(results.peers), "different models": len(digests)})


def all_aggregated(results: SwarmResults) -> Verdict:
    """Every round of every peer was aggregated."""
    wanted = results.rounds * len(results.peers)
    aggregated = sum(entry.outcome == AGGREGATED for peer in results.peers for entry in peer.rounds)
    return Verdict(aggregated == wanted, {"rounds of all peers": wanted, "aggregated": aggregated})


def accurate(results: SwarmResults) -> Verdict:
    """The least accurate peer reaches what the task is known to allow."""
    lowest = min(peer.summary.accuracy or 0.0 for peer in results.peers)
    return Verdict(
        lowest >= ACCURACY_AT_LEAST, {"lowest of all peers": lowest, "at least": ACCURACY_AT_LEAST}
    )


def better_than_alone(results: SwarmResults) -> Verdict:
    """The swarm gains on the mean of its peers training alone."""
    gain = 100 * (results.together - results.alone)
    numbers = {"swarm": results.together, "mean alone": results.alone}
    return Verdict(
        gain >= GAIN_AT_LEAST_POINTS, {**numbers, "gain in points": gain, "at least": GAIN_AT_LEAST_POINTS}
    )


def near_pooled(results: SwarmResults) -> Verdict:
    """The swarm loses little against training on all data in one place."""
    loss = 100 * (results.pooled - results.together)
    numbers = {"swarm": results.together, "pooled": results.pooled}
    return Verdict(
        loss <= LOSS_AT_MOST_POINTS, {**numbers, "loss in points": loss, "at most": LOSS_AT_MOST_POINTS}
    )


CLAIMS = (
    Claim("Every peer ends with the same model", same_model),
    Claim("Every round is aggregated", all_aggregated),
    Claim(f"Test accuracy is at least {ACCURACY_AT_LEAST:.0%}", accurate),
    Claim(f"At least {GAIN_AT_LEAST_POINTS:g} points better than peers training alone", better_than_alone),
    Claim(f"Within {LOSS_AT_MOST_POINTS:g} points of training on pooled data", near_pooled),
    Claim("No peer spends more epsilon than its budget", privacy.within_budget),
)


def headline(results: SwarmResults) -> str:
    """The main figures in one sentence."""
    name, said = METRIC_NAMES[results.metric], partial(value_text, results.metric)
    return (
        f"{len(results.peers)} peers reached {said(results.together)} test {name} together; "
        f"alone they reach {said(results.alone)} on average, "
        f"one model on pooled data {said(results.pooled)}. "
        f"{privacy.verdict_in_words(results)}"
    ).rstrip()


_BY_ROUND = ("round", "outcome", "reason", "accuracy", "metric", "value", "baseline")


def _peer_figures(peer: PeerRun) -> Json:
    return {
        "peer": peer.peer,
        **asdict(peer.summary),
        "by_round": [{name: getattr(entry, name) for name in _BY_ROUND} for entry in peer.rounds],
        "mean_by_phase": {
            name: {
                "seconds": phase_mean(peer.rounds, name, "s"),
                "bytes_sent": phase_mean(peer.rounds, name, "bytes_sent"),
                "bytes_received": phase_mean(peer.rounds, name, "bytes_received"),
            }
            for name in PHASES
        },
    }


def _curve_figures(curve: Curve) -> Json:
    return {
        "rows": curve.rows,
        curve.metric: curve.final,
        "seconds": curve.seconds,
        f"{curve.metric}_by_round": list(curve.values),
    }


def tables(results: SwarmResults) -> tuple[Table, ...]:
    """A row for each peer, then what the swarm is compared with."""
    name = METRIC_NAMES[results.metric]
    headings = ("peer", "rounds", "aggregated", "fallbacks", name, "model", "MB sent", "seconds")
    alone, pooled = results.baselines.alone, results.baselines.pooled
    said = partial(value_text, results.metric)
    rows_mean = f"{mean([curve.rows for curve in alone]):.0f} on average"
    comparison = (
        ("together, as a swarm", rows_mean, said(results.together)),
        ("alone, mean of the peers", rows_mean, said(results.alone)),
        ("on pooled data", str(pooled.rows), said(results.pooled)),
        (f"not at all: {BASE_RATE}", "0", said(results.guessing)),
    )
    return (
        Table("Peers", headings, tuple(_peer_row(peer) for peer in results.peers)),
        Table(f"Test {name}", ("trained", "rows", name), comparison),
        *unlike(results),
        *privacy.tables(results),
    )


_PER_PEER: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    (WORST, "accuracy of the worst peer, test rows weighted by its labels", "{:.1%}".format),
    (TENTH, "tenth percentile of the peers' accuracy", "{:.1%}".format),
    (SPREAD, "spread of the peers' accuracy (SD)", "{:.1%}".format),
    (FEWEST, "rows of the smallest peer", "{:.0f}".format),
    (MOST, "rows of the largest peer", "{:.0f}".format),
    (DISTANCE, "label distance, mean of the peers", "{:.3f}".format),
    (FARTHEST, "label distance of the farthest peer", "{:.3f}".format),
    (BY_CHANCE, "label distance if rows were dealt at random", "{:.3f}".format),
    (UP, "kB sent a peer and round", lambda sent: f"{sent / 1e3:.1f}"),
    (DOWN, "kB received a peer and round", lambda received: f"{received / 1e3:.1f}"),
)


def unlike(results: SwarmResults) -> tuple[Table, ...]:
    """A table of how unlike the peers' rows are, how well the model serves each, and what a round costs."""
    rows = tuple(
        (name, said(found))
        for fact, name, said in _PER_PEER
        if isinstance(found := results.facts.get(fact), int | float)
    )
    return (Table("Among the peers", ("what", "value"), rows),) if rows else ()


def _peer_row(peer: PeerRun) -> tuple[str, ...]:
    summary = peer.summary
    return (
        f"peer {peer.peer}",
        str(summary.rounds),
        str(summary.aggregated),
        str(summary.fallbacks),
        value_text(summary.metric, summary.value),
        summary.base_digest[:10],
        f"{summary.bytes_sent / MEGABYTE:.2f}",
        f"{summary.seconds:.1f}",
    )


def arms(results: SwarmResults) -> dict[str, Json]:
    """The figures of every arm: of all peers, of each one alone, of one model, and of every mechanism."""
    swarm = {results.metric: results.together, "seconds": results.swarm_s, **results.facts}
    alone = [_curve_figures(curve) for curve in results.baselines.alone]
    return {
        "swarm": {**swarm, "peers": [_peer_figures(peer) for peer in results.peers]},
        "alone": {results.metric: results.alone, "peers": alone},
        "pooled": _curve_figures(results.baselines.pooled),
        "privacy": privacy.arm(results),
    }


SWARM: Scenario[SwarmConfiguration, SwarmResults] = Scenario(
    **SCENARIOS["swarm"].listed,
    command_line=CommandLine(
        options=frozenset({"peers", "rounds", "seed", "engine", "out", "quick", "overrides"}),
        engines=ENGINES,
        plan=plan,
        describe=describe,
        again=again,
    ),
    execute=execute,
    presentation=Presentation(
        headline=headline, arms=arms, claims=CLAIMS, charts=charts.charts, tables=tables
    ),
)
