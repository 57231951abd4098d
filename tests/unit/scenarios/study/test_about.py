"""Claims with a judge of their own: what the judge gets, and when it is not asked."""

from collections.abc import Mapping, Sequence

from scenarios.frame.spec import Verdict
from scenarios.study.about import about, all_of, along, as_claims, pairs_of, together
from scenarios.study.makers import identity
from scenarios.study.sweep import Sweep
from tests.unit.scenarios.study.made_up import TWO, sweep

LDP, SGD = {"mechanism": "ldp"}, {"mechanism": "sgd"}


def test_a_selection_is_its_first_arm_and_together_claims_hold_if_all_do():
    @about({"mechanism": "none"}, {**LDP, "epsilon": 8})
    def noise_costs(sweep: Sweep, quiet: str, noised: str) -> Verdict:
        return Verdict(sweep.mean(quiet) > sweep.mean(noised), {"of": f"{quiet}, {noised}"})

    one, other = as_claims({"Noise costs": identity(noise_costs), "Both": together(noise_costs, noise_costs)})
    assert one.judge(sweep(TWO)) == other.judge(sweep(TWO)) == Verdict(True, {"of": "none, ldp 8"})
    assert (one.name, one.kind) == ("Noise costs", "identity")
    assert (other.name, other.kind) == ("Both", "finding")

    @about({"mechanism": "none"})
    def never(sweep: Sweep, quiet: str) -> Verdict:
        return Verdict(False, {"never": 1})

    @about({"mechanism": "none"})
    def always(sweep: Sweep, quiet: str) -> Verdict:
        return Verdict(True, {"always": 1})

    assert together(always, never).judge(sweep(TWO)) == Verdict(False, {"always": 1, "never": 1})


def test_the_other_subjects_find_arms_pairs_and_points() -> None:
    @about(all_of(LDP), pairs_of(LDP, SGD), along("epsilon", SGD, least=2))
    def all_are_there(
        sweep: Sweep, arms: Sequence[str], pairs: Sequence[tuple[str, str]], points: Mapping[str, float]
    ) -> Verdict:
        assert arms == ("ldp 1", "ldp 8")
        assert pairs == (("ldp 1", "sgd 1"), ("ldp 8", "sgd 8"))
        assert list(points.items()) == [("sgd 1", 1.0), ("sgd 8", 8.0)]
        return Verdict(True, {})

    assert all_are_there.judge(sweep(TWO)) == Verdict(True, {})
    for missing in ("sgd 1", "sgd 8"):
        fewer = {name: figure for name, figure in TWO.items() if name != missing}
        assert all_are_there.judge(sweep(fewer)) is None


def test_a_judge_is_not_asked_about_what_was_not_run_and_may_give_no_verdict():
    @about({"mechanism": "none"}, all_of(SGD))
    def fails(sweep: Sweep, *found: object) -> Verdict:
        raise AssertionError(found)

    assert fails.judge(sweep({"none": 0.7})) is None
    assert fails.judge(sweep({"sgd 1": 0.7})) is None

    @about({"mechanism": "none"})
    def depends(sweep: Sweep, quiet: str) -> Verdict | None:
        return None

    assert depends.judge(sweep(TWO)) is None
