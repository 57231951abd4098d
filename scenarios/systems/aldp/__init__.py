"""Window-based adaptive local differential privacy."""
