"""The memory that a member of a session needs, and that a whole node needs."""
