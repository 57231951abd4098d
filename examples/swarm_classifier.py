"""Three clinics fit a scikit-learn classifier together; each has a third of the patients.

python examples/swarm_classifier.py

Here all three are in one program, on ports that were free. In earnest each clinic runs its own `fit`, on its
own machine, with the addresses of all three.
"""

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from node import SwarmClassifier


def main() -> None:
    """Each clinic calls `fit`, which returns when the run with the others is over."""
    patients = load_breast_cancer()
    x, y = patients.data[:, :8], patients.target_names[patients.target]
    x, x_new, y, y_new = train_test_split(x, y, random_state=0)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    addresses = [f"127.0.0.1:{opened.getsockname()[1]}" for opened in sockets]
    clinics = [SwarmClassifier(peers=addresses, listen=opened) for opened in sockets]
    parts = np.array_split(np.arange(len(x)), 3)
    with ThreadPoolExecutor(3) as pool:
        models = list(pool.map(lambda clinic, own: clinic.fit(x[own], y[own]), clinics, parts))
    for number, model in enumerate(models):
        print(f"clinic {number}: {model.score(x_new, y_new):.3f} of new patients right")
    print("one model:", len({model.summary_.base_digest for model in models}) == 1)
    chances = models[0].predict_proba(x_new[:1])[0]
    print(
        "the first:", ", ".join(f"{one} {p:.3f}" for one, p in zip(models[0].classes_, chances, strict=True))
    )


if __name__ == "__main__":
    main()
