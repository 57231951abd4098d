"""`python -m node.init`: a task and a schema from a file of rows."""
