"""What a promise to persons costs, beside one to rows."""
