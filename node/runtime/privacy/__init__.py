"""What a run promises: its mechanism, its budget, and what was spent before."""
