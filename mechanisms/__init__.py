"""Protects what a node has learned before anybody else sees it: pure functions, no I/O."""
