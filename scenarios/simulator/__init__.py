"""Swarms of machines under a simulated clock and network (python -m scenarios.simulator)."""
