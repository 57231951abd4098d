"""`python -m node.agree`: peers agree on scales, lists and a task by noised sums."""
