"""What it costs to promise epsilon to persons instead of rows."""
