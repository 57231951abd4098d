"""What learns in a node where that is no torch module: a protocol of four methods, and adapters to it."""
