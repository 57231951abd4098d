"""This node's votes, how a session ends late, and who is waited for."""
