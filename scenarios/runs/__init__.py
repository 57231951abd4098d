"""One run of a scenario: what was asked for, the sweep, its progress."""
