"""Privacy accounting: events, ledgers of events, and the (epsilon, delta) that a ledger costs."""
