"""Accounting of the spent budget: events, ledgers, and the (epsilon, delta) that they prove."""
