"""Data sets: where they come from, how they are split among clients, models for them."""
