"""Secure sums, beside a sum without protection."""
