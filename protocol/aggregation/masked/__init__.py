"""The masked protocol: sums that survive members who fall silent, and liars."""
