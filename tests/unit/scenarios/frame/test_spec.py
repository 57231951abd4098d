from scenarios.frame.spec import Request


def test_a_request_knows_what_the_command_line_had() -> None:
    assert Request().given() == frozenset()
    assert Request(peers=0, seed=0, quick=True).given() == {"peers", "seed", "quick"}
