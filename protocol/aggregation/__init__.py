"""One session: a group of members adds up its offers, and nobody learns more than the sum."""
