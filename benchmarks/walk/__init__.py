"""From three hospitals' exports to predictions with privacy, beside central DP-SGD on the same rows."""
