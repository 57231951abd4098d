"""A server and its clients, for the systems that the scenarios reproduce."""
