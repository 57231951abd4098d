"""The two-round additive protocol: each member sends a share to each other member, then its sum of shares."""
