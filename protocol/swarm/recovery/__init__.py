"""A node that was away or fell back fetches what the others agreed on."""
