"""A swarm with differential privacy: noise for each record's sake, and what it has cost.

python examples/privacy.py
"""

from node import Swarm, load_task

task = load_task(
    "digits", ["privacy.mechanism=dp-sgd", "privacy.epsilon=8", "train.rounds=3", "train.batch_size=64"]
)
results = Swarm.local(3, task).run()

print(results)
for number, (records, summary) in enumerate(zip(results.records, results.summaries, strict=True)):
    spent = ", ".join(f"{record.epsilon:.2f}" for record in records)
    print(f"peer {number} spent epsilon {spent} at delta {summary.delta:g}, of 8 in all")
    if summary.privacy:
        print(f"  for {summary.privacy['unit']} ({summary.privacy['neighbours']})")
