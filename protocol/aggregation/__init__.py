"""One session: a group of members adds up its offers, and no member learns more than the sum."""
