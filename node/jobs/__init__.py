"""Jobs: short sequences of secure sums, each decided by the sums before it."""
