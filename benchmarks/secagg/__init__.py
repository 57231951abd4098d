"""Secure sums compared with an insecure one."""
