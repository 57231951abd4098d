"""Coverage-guided fuzzing of the codec and of the masked machine, for a bounded time.

    python -m tests.fuzz [codec|machine] [options of libFuzzer]

It needs atheris, which has no build for every Python; without it the program says so and ends with status 0.
hypothesis and fixed seeds feed the same machine in tests/property/test_masked_receive.py.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence

TARGETS = ("codec", "machine")
OPTIONS = ("-max_total_time=60", "-max_len=4096", "-len_control=0")
MISSING = "atheris is not installed: the coverage-guided fuzzer is left out (pip install atheris)"


def fuzz(name: str, options: Sequence[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris  # noqa: PLC0415 - it is optional

    with atheris.instrument_imports(include=["protocol"]):
        from tests.fuzz import targets  # noqa: PLC0415 - only what is imported in here is instrumented
    targets.prepare()
    atheris.Setup([name, *OPTIONS, *options], targets.TARGETS[name])
    atheris.Fuzz()


def main(argv: Sequence[str]) -> int:
    """Runs one target in this process, or each in its own process."""
    if importlib.util.find_spec("atheris") is None:
        print(MISSING)
        return 0
    if argv and argv[0] in TARGETS:
        fuzz(argv[0], argv[1:])
    command = [sys.executable, "-m", "tests.fuzz"]
    return max(subprocess.run([*command, name, *argv], check=False).returncode for name in TARGETS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
