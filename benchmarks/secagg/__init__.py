"""Secure sums beside an insecure one."""
