"""What the tests of all packages use."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def one_line(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls the `main` of a command that ends with `status`; returns the one line of its error."""

    def called(main: Callable[..., int], *arguments: object, status: int = 2) -> str:
        capsys.readouterr()
        assert main(*arguments) == status
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return called
