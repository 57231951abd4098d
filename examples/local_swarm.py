"""Five peers in this program learn to read handwritten digits, and end with one model.

python examples/local_swarm.py
"""

from node import Swarm

results = Swarm.local(5, "digits", rounds=5).run()

print(results)
print(f"one model: {results.agreed}")
