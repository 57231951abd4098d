"""Watch the rounds as they end, and stop when the model is good enough.

python examples/stop_early.py

In a notebook leave out asyncio.run: `await main()` is all.
"""

import asyncio

from node import Swarm

ENOUGH = 0.85


async def main() -> None:
    """Every round of every peer comes as a record, at its end."""
    swarm = Swarm.local(4, "digits")
    async for peer, record in swarm.rounds():
        print(f"peer {peer}, round {record.round}: {record.outcome}, {record.figures}")
        if (record.value or 0) >= ENOUGH:
            break  # leaving the loop ends all peers, between two batches at the latest
    print(f"stopped after round {max(summary.rounds for summary in swarm.results.summaries)} of 20")


if __name__ == "__main__":
    asyncio.run(main())
