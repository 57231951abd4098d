"""What people and programs see of a node: terminal, log, page, figures."""
