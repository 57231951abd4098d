"""What goes out: a link to each endpoint, how it opens, what it sends again, and its bulk bodies."""
