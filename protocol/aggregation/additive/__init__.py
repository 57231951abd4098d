"""The two-round additive protocol: a share to each member, then the sums of shares."""
