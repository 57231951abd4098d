"""Messages, their limits, and their encoding."""
