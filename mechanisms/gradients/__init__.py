"""Private gradients: per-row gradients, clipped, summed and noised."""
