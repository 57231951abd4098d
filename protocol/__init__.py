"""Secure aggregation as state machines without input or output: from messages and times to actions."""
