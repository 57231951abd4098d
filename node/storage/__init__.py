"""Storage that survives a crash."""
