"""The replayed systems, one folder each."""
