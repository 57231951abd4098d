"""Tables as their owners have them: a file a site, a task by node.init, and what models learn."""
