"""RPFL's allocation of a budget over clients."""
