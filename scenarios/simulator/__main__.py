"""`python -m scenarios.simulator`: one seeded schedule, told event by event."""

import sys

from scenarios.simulator.network import main

if __name__ == "__main__":
    sys.exit(main())
