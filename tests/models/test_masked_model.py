"""The model of acknowledgements, releases and view changes, `masked.pml`, under every order of messages.

Every run is exhaustive under its assumptions (n = 4, f = 1, t = 3, m = 1; see the defines in the model).
No step is ever undone and views only rise, so no run is infinite (also checked). So all survivors complete if
no run ends in any other way. They can only change with the model: `.ci/run` runs some, `make model` all.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import soak
from tests.models.searched import skipped_without_its_tools

MODEL = Path(__file__).with_name("masked.pml")
MEMORY_MIB = 4000
DEPTH = 10_000
NO_ENDS = "-E"

# What they find changes with the model alone.
pytestmark = [skipped_without_its_tools(MODEL), pytest.mark.sampled]

LIAR = ("LIARS=1",)
CRASH = ("LIARS=0", "CRASH", "ORDERED")
PROMPT = (*CRASH, "PROMPT")
RUN = (*LIAR, "STEPS=2")
WHOLE_RUN = (*RUN, "ALL_OR_NONE")
BOTH_OPENED, TWO_RESULTS = "both_opened", "two_results"
RELEASED_TWICE, TWO_VALUES = "released_twice", "two_values_released"
# Member 3 lies, so a rotation by 3 is one by 0: the leaders of views 1 and 2 are honest.
EACH_ROTATION = pytest.mark.parametrize("offset", [soak(0), soak(1), 2])
STUCK, ENDLESS = "a run ends before all survivors have completed", "a run goes on for ever"


@dataclass(frozen=True)
class Verdict:
    """The result of a run: the first error (None: no error), and the number of states."""

    found: str | None
    states: int


def _output(command: list[str], where: Path) -> str:
    ended = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    return output


def _found(output: str) -> str | None:
    """Parses the verifier's output; a search that was cut short is no result."""
    errors = re.search(r"errors: (\d+)", output)
    assert errors, output
    broken = re.search(r"assertion violated\s+!\((\w+)\)", output)
    if broken:
        return broken[1]
    if "invalid end state" in output.split("(Spin Version", maxsplit=1)[0]:
        return STUCK
    if "non-progress cycle" in output.split("(Spin Version", maxsplit=1)[0]:
        return ENDLESS
    assert errors[1] == "0", output
    assert "Search not completed" not in output, output
    assert "search depth too small" not in output, output
    return None


def search(where: Path, defines: tuple[str, ...], kind: str = "SAFETY", *options: str) -> Verdict:
    """Searches all reachable states for failed assertions and, if `options` is empty, for invalid ends.

    The verifier is compiled without optimisation, which would take longer than it saves.
    """
    _output(["spin", "-a", *(f"-D{define}" for define in defines), str(MODEL)], where)
    build = ["gcc", "-O0", "-w", f"-D{kind}", "-DVECTORSZ=2048", f"-DMEMLIM={MEMORY_MIB}"]
    _output([*build, "-o", "pan", "pan.c"], where)
    output = _output(["./pan", f"-m{DEPTH}", "-w22", *options], where)
    states = re.search(r"(\d+) states, stored", output)
    assert states, output
    return Verdict(_found(output), int(states[1]))


def safety(where: Path, *defines: str) -> Verdict:
    """Checks assertions only: if a member may wait for ever, no end is invalid."""
    return search(where, defines, "SAFETY", NO_ENDS)


@EACH_ROTATION
def test_a_liar_and_any_delays_change_nothing(tmp_path, offset):
    verdict = safety(tmp_path, *LIAR, f"OFFSET={offset}")
    assert verdict.found is None
    assert verdict.states > 50_000


@pytest.mark.soak
@pytest.mark.parametrize("offset", range(3))
def test_one_release_each_is_enough_for_secrecy_and_one_result(tmp_path, offset):
    """P1 and P2, whatever happens to acknowledgements and locks."""
    defines = (*LIAR, "RELEASES_ON_ONE_ACK", "AGREEMENT=0", f"OFFSET={offset}")
    assert safety(tmp_path, *defines).found is None


@pytest.mark.soak
def test_a_run_of_two_steps_opens_both_secrets_of_nobody(tmp_path):
    """Even if sums may lack a member, and members leave between the steps; view 1 has another leader then."""
    verdict = safety(tmp_path, *RUN, "LATER=1")
    assert verdict.found is None
    assert verdict.states > 1_400_000


@pytest.mark.soak
@pytest.mark.parametrize("leaders", [(0, 0), (0, 2), (1, 0), (2, 1)], ids=str)
def test_a_run_of_two_steps_whoever_leads(tmp_path, leaders):
    first, later = leaders
    assert safety(tmp_path, *RUN, f"OFFSET={first}", f"LATER={later}").found is None


@pytest.mark.soak
@pytest.mark.parametrize("steps", [2, 3])
def test_a_run_of_sums_that_are_all_or_none_opens_no_pair_key(tmp_path, steps):
    """P3: the product's runs."""
    verdict = safety(tmp_path, *LIAR, f"STEPS={steps}", "ALL_OR_NONE", "LATER=1")
    assert verdict.found is None
    assert verdict.states > 220_000


def test_all_survivors_complete_whoever_crashes_and_whatever_is_lost(tmp_path):
    verdict = search(tmp_path, PROMPT)
    assert verdict.found is None
    assert verdict.states > 100_000


@pytest.mark.soak
def test_all_complete_though_the_first_deadline_fires_too_early(tmp_path):
    assert search(tmp_path, ("LIARS=0", "ORDERED")).found is None


@pytest.mark.soak
@pytest.mark.parametrize("crasher", range(4))
def test_all_survivors_complete_after_an_early_deadline_and_a_crash(tmp_path, crasher):
    """It crashes during any broadcast; leaders of views 1 to 3 are members 1 to 3."""
    assert search(tmp_path, (*CRASH, "MIDWAY", "VIEWS=4", f"CRASHER={crasher}")).found is None


@pytest.mark.soak
def test_no_run_goes_on_for_ever(tmp_path):
    assert search(tmp_path, PROMPT, "NP", "-l", NO_ENDS).found is None


@pytest.mark.parametrize(
    ("defines", "found"),
    [
        ((*LIAR, "RELEASES_ON_ONE_ACK"), {TWO_VALUES}),
        soak((*LIAR, "RELEASES_AGAIN"), {RELEASED_TWICE}),
        soak((*LIAR, "RELEASES_AGAIN", "ACKS_AGAIN", "ONCE=0", "AGREEMENT=0"), {BOTH_OPENED, TWO_RESULTS}),
        soak((*LIAR, "ACKS_AGAIN"), {TWO_VALUES}),
        soak(("LIARS=2",), {BOTH_OPENED, TWO_RESULTS}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_planted_faults_of_safety(tmp_path, defines, found):
    assert safety(tmp_path, *defines).found in found


@pytest.mark.parametrize("fault", ["SELF_MASK_AGAIN", soak("PAIR_KEY_AGAIN")])
def test_planted_faults_of_runs(tmp_path, fault):
    """A secret that two steps share: opened in one, it shows a member bare in the other."""
    assert safety(tmp_path, *RUN, fault).found == BOTH_OPENED


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["SELF_MASK_AGAIN", "PAIR_KEY_AGAIN"])
def test_limit_sums_that_are_all_or_none_hide_a_secret_that_two_steps_share(tmp_path, fault):
    """They open no pair key, so the first half of what a fault needs never happens."""
    assert safety(tmp_path, *WHOLE_RUN, fault).found is None


@pytest.mark.parametrize("fault", ["IGNORES_LOCKS", soak("RELEASED_IS_DEAF"), soak("NO_RELAY")])
def test_planted_faults_of_progress(tmp_path, fault):
    assert search(tmp_path, (*PROMPT, fault)).found == STUCK


@pytest.mark.soak
def test_planted_fault_an_acknowledgement_in_the_view_that_one_voted_to_leave(tmp_path):
    """The vote shows no lock, and then there is one: the next proposal lacks an acknowledgement."""
    defines = (*CRASH, "MIDWAY", "VIEWS=4", "CRASHER=3", "ACKS_AFTER_VOTING")
    assert search(tmp_path, defines).found == STUCK


@pytest.mark.soak
def test_limit_deadlines_in_any_order_can_end_a_session_for_nothing(tmp_path):
    """An acknowledgement is final: one given in a view that others have left may be one too many."""
    assert search(tmp_path, ("LIARS=0", "CRASH")).found == STUCK


@pytest.mark.soak
def test_limit_three_views_are_one_too_few_for_a_leader_that_dies_included(tmp_path):
    assert search(tmp_path, (*CRASH, "MIDWAY", "VIEWS=3", "CRASHER=2")).found == STUCK


REACHED = [
    *((line, LIAR) for line in range(1, 6)),
    *((line, PROMPT) for line in range(6, 8)),
    *((line, RUN) for line in range(8, 11)),
]


@pytest.mark.soak
@pytest.mark.parametrize(("line", "defines"), REACHED)
def test_the_model_reaches_what_it_is_about(tmp_path, line, defines):
    assert safety(tmp_path, *defines, f"UNREACHED={line}").found == "happened"
