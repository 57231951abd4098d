"""Memory of a member of a session, and of a whole node."""
