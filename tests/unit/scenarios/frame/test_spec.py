from scenarios.frame.spec import Claim, Judged, Request, Verdict, judge


def positive(number: int) -> Verdict:
    return Verdict(number > 0, {"number": number})


def even(number: int) -> Verdict:
    return Verdict(number % 2 == 0, {"remainder": number % 2})


def test_every_claim_is_judged_in_order_and_one_that_fails_is_kept() -> None:
    judged = judge((Claim("positive", positive), Claim("even", even)), 3)
    assert judged == (
        Judged("positive", Verdict(True, {"number": 3})),
        Judged("even", Verdict(False, {"remainder": 1})),
    )


def test_a_request_knows_what_the_command_line_had() -> None:
    assert Request().given() == frozenset()
    assert Request(peers=0, seed=0, quick=True).given() == {"peers", "seed", "quick"}
