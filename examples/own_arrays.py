"""Three hospitals, each with arrays of its own and a node of its own, learn one model.

python examples/own_arrays.py

Here all three are in one program, and each listens on a port that was free. In earnest each hospital runs its
own Peer, on its own machine, with the addresses of all three; see docs/tutorial.md.
"""

import asyncio
import socket

import numpy as np
from sklearn.datasets import load_breast_cancer

from node import Peer, Summary

TASK = {
    "task": {"name": "tumours"},
    "model": {"class": "node.models:MLP", "args": {"sizes": [30, 16, 2]}},
    "train": {"rounds": 4, "learning_rate": 0.05},
}


async def main() -> None:
    """Each hospital has a third of the patients."""
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    patients = np.random.default_rng(0).permutation(len(x))
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    addresses = [f"127.0.0.1:{opened.getsockname()[1]}" for opened in sockets]
    peers = [
        Peer(TASK, (x[own], y[own]), peers=addresses, listen=opened, out=f"runs/hospital-{number}")
        for number, (own, opened) in enumerate(zip(np.array_split(patients, 3), sockets, strict=True))
    ]
    summaries: list[Summary] = await asyncio.gather(*(peer.run_async() for peer in peers))
    for number, summary in enumerate(summaries):
        print(f"hospital {number}: {summary.accuracy_of} {summary.figures}")
    print("everybody has the model", {summary.base_digest[:16] for summary in summaries})
    print("written to", peers[0].out)


if __name__ == "__main__":
    asyncio.run(main())
