"""What a node adds to a sum: its update or its steps, their weight, and what it counts for the metric."""
