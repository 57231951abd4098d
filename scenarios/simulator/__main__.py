"""`python -m scenarios.simulator`: runs seeded schedules one after another until one breaks a rule."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from scenarios.simulator.network import Network
from scenarios.simulator.plans import random_plan
from scenarios.simulator.rules import Violation


def main(argv: Sequence[str] | None = None) -> int:
    """Run seeds one after another; exit status 1 and the seed at the first violation."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.simulator", description=main.__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--count", type=int, default=200, help="how many seeds (default 200)")
    options = parser.parse_args(argv)
    ends: Counter[str] = Counter()
    longest_wait_s = 0.0
    for seed in range(options.first, options.first + options.count):
        try:
            network = Network(random_plan(seed), seed).run()
        except Violation as violation:
            print(f"VIOLATION {violation}; run it again: --first {seed} --count 1")
            return 1
        ends.update(outcome.reason or "aggregated" for outcome in network.rules.outcomes)
        longest_wait_s = max(longest_wait_s, network.rules.longest_wait_s)
    counts = ", ".join(f"{count} {reason}" for reason, count in ends.most_common())
    print(f"{options.count} schedules without a violation; rounds: {counts}")
    print(f"longest time without progress: {longest_wait_s:.1f} virtual seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
