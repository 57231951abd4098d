"""Messages, their limits, and their bytes."""
