"""The replayed systems, a folder each."""
