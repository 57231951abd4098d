"""This node's votes, finishing a session late, and which electors are missing."""
