"""The model of which base is the swarm's, `electorate.cpp`, in every state that its adversary can reach.

Each search is exhaustive for its number of nodes (N) and of sessions (S); with RUNS=1, groups take runs of
steps, and S counts each step. The first LIARS nodes lie, and the rule tolerates F of them. The model explains
the other defines. The searches can only change with it:
`.ci/run` runs some, `make model` all but those of longer runs, `make soak` these.
"""

from __future__ import annotations

import faulthandler
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import soak
from tests.models.searched import skipped_without_its_tools

MODEL = Path(__file__).with_name("electorate.cpp")

# What they find changes with the model alone.
pytestmark = [skipped_without_its_tools(MODEL), pytest.mark.sampled]

EXHAUSTIVE = "exhaustive"
CUT_OFF = "cut off"
TWO_SUCCESSORS = "VIOLATED: an anchor has two strong successors"
DISCARDED = "VIOLATED: a strong base was discarded"
FAULTS = re.findall(r"^    ([A-Z_]+),", MODEL.read_text().partition("enum Fault {")[2], re.MULTILINE)
"""Their names, each at its number."""
NO_WAY_ON = "VIOLATED: no group is strong any more"
DIVIDED = "two groups at once on one anchor that share liars alone"
AGAIN = "a liar votes in a group while another on the anchor with its vote may have a result"
BOTH_WAYS = "a liar is excused in a group while another on the anchor with its vote may have a result"
DECEIVED = "a vote closes that would not, did liars not say that they are out"
LATE = "liars make a result of a session that all others have left"
TOO_FEW = "nobody lies and yet no group can be strong: f electors or fewer did not resign"
STUCK = "nobody lies and yet no group can be strong: a lie could hide a result"


@dataclass(frozen=True)
class Verdict:
    """The result of a search: how it ended, in how many states, and how often each event occurred."""

    ended: str
    states: int
    reached: dict[str, int]


def build(where: Path, defines: str) -> Path:
    """Builds the model for these defines."""
    program = where / "electorate"
    command = ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, MODEL]
    chosen = [f"-D{define}" for define in defines.split()]
    built = subprocess.run([*command, *chosen], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return program


def verdict(program: Path, *arguments: str) -> Verdict:
    """Runs a program of the model."""
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran
    end = re.match(r"(.+) \((\d+) states, \d+ steps\)\n", ran.stdout)
    assert end, ran
    reached = re.findall(r"^reached (\d+) times: (.+)$", ran.stdout, re.MULTILINE)
    return Verdict(end[1], int(end[2]), {what: int(times) for times, what in reached})


def search(where: Path, defines: str) -> Verdict:
    """Builds the model for these defines and runs it."""
    return verdict(build(where, defines))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Verdict]:
    """Runs the model with a fault in it: one program for all faults with the same defines."""
    programs: dict[str, Path] = {}

    def run(fault: str, defines: str) -> Verdict:
        if defines not in programs:
            programs[defines] = build(tmp_path_factory.mktemp("faults"), f"FAULTS {defines}")
        return verdict(programs[defines], str(FAULTS.index(fault)))

    return run


@pytest.mark.parametrize(
    ("defines", "at_least", "events"),
    [
        ("N=3 S=3", 1_400_000, 7),
        soak("N=4 S=2 RESIGN=0", 390_000, None),
        soak("N=3 S=4 RESIGN=0 DROP=0", 2_700_000, None),
        soak("N=4 S=2 ELECTORS=3", 1_100_000, None),  # nodes 0 and 1; the others are newcomers
        soak("N=5 S=2 RESIGN=0 DROP=0", 2_100_000, None),
        ("RUNS=1 N=3 S=3", 1_100_000, 14),
        soak("RUNS=1 N=3 S=3 ELECTORS=3", 580_000, None),  # nodes 0 and 1; the other is a newcomer
        soak("RUNS=1 N=4 S=2", 1_900_000, None),
    ],
)
def test_strong_bases_are_one_chain(tmp_path, defines, at_least, events):
    """`events`: how many kinds of events the model is about, each of which must occur; None: some may not."""
    verdict = search(tmp_path, defines)
    assert verdict.ended == EXHAUSTIVE
    assert verdict.states > at_least
    assert events is None or (len(verdict.reached) == events and all(verdict.reached.values()))


@pytest.fixture
def unhurried():
    """Raises the time limit: the largest searches take longer than a hanging test may."""
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("defines", "at_least"),
    [
        ("N=4 S=3 RESIGN=0 DROP=0", 8_000_000),
        ("N=4 S=2", 13_000_000),  # 0.4 GB
        ("N=5 S=2 RESIGN=0", 14_400_000),  # 0.4 GB
        ("N=3 S=4", 30_500_000),  # 0.8 GB
        ("N=4 S=3 RESIGN=0", 31_200_000),  # 0.8 GB
        ("N=3 S=5 RESIGN=0 DROP=0", 59_500_000),  # 1.6 GB
        ("N=4 S=3 DROP=0", 130_000_000),  # 3.1 GB
        ("RUNS=1 N=3 S=4 RESIGN=0", 9_600_000),  # 0.2 GB
        ("RUNS=1 N=4 S=3 RESIGN=0 POWER=0", 11_000_000),  # 0.2 GB
        ("RUNS=1 N=4 S=3 RESIGN=0", 16_900_000),  # 0.4 GB
        ("RUNS=1 N=3 S=4", 55_000_000),  # 1.6 GB
        ("RUNS=1 N=3 S=5 RESIGN=0 POWER=0", 75_000_000),  # 1.6 GB
        ("F=1 LIARS=1 N=4 S=3 DROP=0", 7_200_000),  # 0.2 GB
        ("RUNS=1 F=1 LIARS=1 N=4 S=3", 11_500_000),  # 0.2 GB
        ("F=1 LIARS=1 N=5 S=2", 61_000_000),  # 1.6 GB
    ],
)
def test_strong_bases_are_one_chain_in_longer_runs(tmp_path, unhurried, defines, at_least):
    verdict = search(tmp_path, defines)
    assert verdict.ended == EXHAUSTIVE
    assert verdict.states > at_least


@pytest.mark.soak
@pytest.mark.parametrize("defines", ["N=4 S=3", "N=5 S=2"])
def test_nothing_is_found_in_longer_runs_before_the_search_is_cut_off(tmp_path, unhurried, defines):
    """Takes 6.3 GB each."""
    assert search(tmp_path, f"{defines} LIMIT=350000000").ended in {CUT_OFF, EXHAUSTIVE}


FORKS = (
    *("NO_DOUBT", "FORGETS", "ANY_T", "BOTH_HALVES", "WEAK_ELECTS", "FORGIVES"),
    *("RESIGNS_IN_DOUBT", "RESIGNS_MIDWAY", "UNBOUND_PROVES", "HIGHER_PROVES"),
)
FORKS_OF_RUNS = (
    *("JOINS_BOUND", "VOTES_UNSYNCED", "CLOSES_FIRST"),
    *map(soak, ("GOES_AHEAD", "LATER_UNBOUND", "COMES_BACK", "RESIGNS_BETWEEN", "EARLIER_PROVES")),
)


@pytest.mark.parametrize(
    ("fault", "found"),
    [*((fault, TWO_SUCCESSORS) for fault in FORKS), ("TODAY_RANK", DISCARDED), ("NEVER_CLOSES", NO_WAY_ON)],
)
def test_planted_faults(planted, fault, found):
    assert planted(fault, "N=3 S=2 TRACE").ended == found


@pytest.mark.parametrize("fault", FORKS_OF_RUNS)
def test_planted_faults_of_runs(planted, fault):
    assert planted(fault, "RUNS=1 N=3 S=3 TRACE").ended == TWO_SUCCESSORS


@pytest.mark.soak
def test_planted_fault_that_all_steps_count_with_the_first_ones_electors(planted):
    assert planted("FIRST_ELECTORS", "RUNS=1 N=3 S=3 TRACE ELECTORS=3").ended == TWO_SUCCESSORS


@pytest.mark.soak
def test_going_ahead_without_the_base_is_harmless_while_the_vote_stays_open(planted):
    """The open vote is what keeps the chain single; the base is what closes it."""
    assert planted("GOES_AHEAD_BOUND", "RUNS=1 N=3 S=3").ended == EXHAUSTIVE


@pytest.mark.parametrize(
    ("defines", "at_least", "more"),
    [
        ("F=1 LIARS=1 N=3 S=3", 116_000, ()),
        soak("F=1 LIARS=1 N=4 S=2", 532_000, (BOTH_WAYS,)),
        soak("F=1 LIARS=1 N=5 S=2 RESIGN=0 DROP=0", 367_000, ()),
        ("RUNS=1 F=1 LIARS=1 N=3 S=3", 80_000, ()),
        soak("F=1 LIARS=1 N=3 S=4", 2_300_000, ()),
        soak("F=1 LIARS=1 N=4 S=3 RESIGN=0", 6_300_000, ()),
        soak("F=1 LIARS=1 N=5 S=2 DROP=0", 6_800_000, (BOTH_WAYS, DIVIDED)),
        soak("F=2 LIARS=2 N=4 S=2", 34_000, ()),
        soak("F=2 LIARS=2 N=5 S=2", 2_500_000, ()),
        soak("F=2 LIARS=2 N=6 S=2 RESIGN=0 DROP=0", 1_250_000, ()),
        soak("RUNS=1 F=1 LIARS=1 N=3 S=4", 2_300_000, ()),
        soak("RUNS=1 F=1 LIARS=1 N=4 S=2", 140_000, (BOTH_WAYS,)),
    ],
)
def test_f_liars_fork_nothing(tmp_path, defines, at_least, more):
    """`more`: what liars do in this search beside what they do in all of them."""
    verdict = search(tmp_path, defines)
    assert verdict.ended == EXHAUSTIVE
    assert verdict.states > at_least
    assert all(verdict.reached[what] for what in (AGAIN, DECEIVED, LATE, *more))


@pytest.mark.parametrize(
    "defines",
    [
        "LIES=1 N=3 RESIGN=0 DROP=0",  # it votes again
        soak("LIES=2 N=3 RESIGN=0 DROP=0"),  # it is in two groups at once
        soak("LIES=4 N=3 RESIGN=0 DROP=0"),  # it says that it is out, and releases
        "LIES=8 N=3 DROP=0",  # it is resigned in one group, and votes in another
        soak("LIES=2 N=5 RESIGN=0 DROP=0 LEAST=3"),  # two groups with one liar, and two honest members each
        soak("LIES=1 N=5 RESIGN=0 DROP=0 LEAST=3"),
        soak("LIES=4 N=5 RESIGN=0 DROP=0 LEAST=3"),
        soak("LIES=1 N=2 RESIGN=0 DROP=0"),  # the first of two is a quorum alone
        soak("RUNS=1 N=3 RESIGN=0"),
    ],
)
def test_one_liar_forks_a_swarm_that_tolerates_none(tmp_path, defines):
    """One kind of lie is enough."""
    assert search(tmp_path, f"{defines} LIARS=1 S=2 TRACE").ended == TWO_SUCCESSORS


@pytest.mark.parametrize("defines", [soak("N=3"), "N=4 RESIGN=0 DROP=0", soak("N=5 RESIGN=0 DROP=0 LEAST=3")])
def test_two_liars_fork_a_swarm_that_tolerates_one(tmp_path, defines):
    assert search(tmp_path, f"{defines} LIARS=2 F=1 S=2 TRACE").ended == TWO_SUCCESSORS


@pytest.mark.soak
def test_a_liar_that_tells_no_lie_forks_nothing(tmp_path):
    assert search(tmp_path, "LIES=0 LIARS=1 N=3 S=2").ended == EXHAUSTIVE


@pytest.mark.parametrize("fault", ["BELIEVES_ALL", "TIE_STAYS", "AT_LEAST"])
def test_planted_faults_with_a_liar(planted, fault):
    assert planted(fault, "F=1 LIARS=1 N=3 S=2 TRACE").ended == TWO_SUCCESSORS


@pytest.mark.parametrize(
    ("nodes", "tolerated"),
    [
        (4, 1),
        *(soak(nodes, f) for nodes in (2, 3, 4, 5) for f in range(1, nodes) if (nodes, f) != (4, 1)),
    ],
)
def test_tolerating_liars_has_a_price_even_if_nobody_lies(tmp_path, nodes, tolerated):
    """A vote may stay open for ever, and then no group is strong any more."""
    verdict = search(tmp_path, f"N={nodes} F={tolerated} S=2 RESIGN=0 DROP=0")
    assert verdict.ended == EXHAUSTIVE
    assert verdict.reached[STUCK]
    assert not verdict.reached[TOO_FEW]
