"""Flower: an existing client (flower/client_app.py), unchanged, with four others and without a server.

python examples/learner_flower.py

In earnest each party runs its own: `python -m node --task digits.toml --shard 0/5 --peers ...`.
"""

from node import Swarm

TASK = {
    "task": {"name": "digits-flower"},
    "model": {
        "learner": "node.learners.flower:flower_client",
        "args": {"client": "flower.client_app:client_fn"},
    },
    "train": {"rounds": 5},
    "aggregation": {"weighting": "samples", "sample_cap": 300},
}

print(Swarm.local(5, TASK).run())
