"""What was spent: events, ledgers, and what (epsilon, delta) they prove."""
