"""Private gradients: each row's own, clipped, summed, noised."""
