"""The memory that a member of a session takes, and a whole node."""
