"""Attacks on a mechanism: lower bounds on what it reveals."""
