"""A command that asks as `murmuration join` does: `python -m tests.unit.node.desk.asking MODE`."""

from __future__ import annotations

import sys
import time

QUESTION = "Join with b.csv?"


def main(mode: str) -> int:
    """Asks a question, and says what was answered; or prints much; or goes on until it is ended."""
    if not sys.stdin.isatty():
        print("error: no terminal")
        return 2
    if mode == "much":
        print("\n".join(f"line {number}" for number in range(10_000)))
        print("x" * 100_000, end="", flush=True)
        return 0
    print("ok       data: they fit\nWard Ä invites you", flush=True)
    print(f"{QUESTION} [y/N] ", end="", flush=True)
    answer = sys.stdin.readline()
    print(f"answered: {answer.strip()}", flush=True)
    if mode == "stays":
        print("it goes on", flush=True)
        time.sleep(3600)
    return 0 if answer == "y\n" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
