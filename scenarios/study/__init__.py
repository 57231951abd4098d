"""A study over several seeds: cells, sweeps, claims, charts."""
