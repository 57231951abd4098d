"""`murmuration stats`: table one, regression and survival of all members' rows, from secure sums alone."""
