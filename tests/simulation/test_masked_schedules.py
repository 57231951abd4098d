"""Random schedules of bare masked machines: loss up to 20 %, slow links, up to n - 1 crashes, n up to 10.

Every rule of tests.simulation.bare holds in each: all results are the same, failed members are healed to it,
each member acknowledges and releases once, both secrets of a member are never open, all end by their
deadlines, and no honest member is accused.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from node.storage.file_shelf import FileShelves
from protocol.actions import Completed, Failed
from protocol.aggregation.masked.release import Phase, SecretRelease
from protocol.aggregation.masked.rounds import MaskedRounds
from protocol.aggregation.masked.view_change import Choice
from protocol.vectors.shelf import in_memory
from tests.simulation.bare import Swarm
from tests.simulation.ends import ends_of, side_by_side
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule, Violation, chaos, remembered

IN_CI, OF_ONE_TEST = 200, 200
FIRST_OF_SOAK, IN_SOAK = 1_000_000, 200_000


@pytest.mark.parametrize("first", range(0, IN_CI, OF_ONE_TEST))
def test_random_schedules_break_no_rule_and_show_what_they_are_for(first):
    """They include view changes, completions next to failures, and releases that nobody can open."""
    ends = ends_of(first, OF_ONE_TEST)
    assert set(ends) == {"all", "some", "released, nobody completed", "nothing released"}
    assert ends["all"] > OF_ONE_TEST / 5, ends


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST_OF_SOAK, FIRST_OF_SOAK + IN_SOAK, 1000))
def test_many_random_schedules_break_no_rule(first):
    side_by_side(first, 1000)


def test_one_seed_is_one_schedule():
    def transcript(seed: int) -> list[tuple[int, bytes, str]]:
        return [
            (sender, to, type(message).__name__)
            for sender, to, message in Swarm(chaos(seed)).run().transcript
        ]

    assert transcript(11) == transcript(11)
    assert transcript(11) != transcript(12)


def test_with_its_payloads_in_files_a_swarm_says_and_ends_the_same(tmp_path: Path):
    """These seeds lose members, change views and fetch totals."""
    shelves = FileShelves(tmp_path, least=0)
    for seed in range(30):
        there, here = (Swarm(chaos(seed), shelf=shelf).run() for shelf in (shelves, in_memory))
        assert there.transcript == here.transcript
        assert ended(there) == ended(here)
    assert shelves.bytes > 0
    assert not list(tmp_path.iterdir()), "the files have no name"


@pytest.mark.parametrize("layout", [EVERYBODY_ADDS, REDUCERS])
def test_a_calm_session_keeps_what_it_has_taken_room_for(layout: int, tmp_path: Path):
    shelves, schedule = FileShelves(tmp_path, least=0), Schedule(2, 5, layout)
    Swarm(schedule, shelf=shelves).run()
    assert 0.8 < shelves.bytes / (5 * schedule.scheme.layout.kept_bytes) <= 1


def ended(swarm: Swarm) -> list[object]:
    """Returns the result of each member that has one."""
    ends = [member.end for member in swarm.members]
    return [end.result.tobytes() if isinstance(end, Completed) else None for end in ends]


def test_a_violation_names_its_schedule():
    with pytest.raises(Violation, match="seed=77, members=4"):
        Swarm(Schedule(77, 4, EVERYBODY_ADDS)).violated("water flows uphill")


# -- rules that are taken away: each must show --------------------------------------------------------------


def first_violation(seeds: Iterable[int]) -> str:
    """Returns the first rule that one of these schedules breaks."""
    with remembered():
        for seed in seeds:
            try:
                Swarm(chaos(seed)).run()
            except Violation as violation:
                return str(violation)
    return "none"


def test_planted_fault_releases_without_a_quorum(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SecretRelease, "quorum", _own_alone)
    assert "releases what" in first_violation(range(10))


def _own_alone(secret_release: SecretRelease):
    lock = secret_release.lock
    return None if lock is None else Choice(lock.vote.included, lock.vote.totals)


def test_planted_fault_another_acknowledgement_in_a_later_view(monkeypatch: pytest.MonkeyPatch):
    """A member that forgets its acknowledgement accepts the totals of every view."""
    honest = MaskedRounds._change_view

    def forgetful(rounds, number, now):
        if number > rounds._views.number:
            secret_release = rounds._secret_release
            secret_release._acks.pop(rounds._participant.me, None)
            secret_release._course._phase = Phase.SILENT if secret_release.own is None else Phase.RELEASED
        return honest(rounds, number, now)

    monkeypatch.setattr(MaskedRounds, "_change_view", forgetful)
    assert "acknowledges two totals" in first_violation(range(200))


def test_who_fails_says_whom_it_missed():
    with remembered():
        swarm = Swarm(Schedule(5, 4, EVERYBODY_ADDS, notices=False, crashes=(Crash(2, 1),))).run()
    ends = [member.end for member in swarm.survivors]
    assert {end.missing for end in ends if isinstance(end, Failed)} == {(swarm.members[2].participant.me,)}
