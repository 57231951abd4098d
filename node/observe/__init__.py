"""Views of a node for people and programs: terminal, log, page, metrics."""
