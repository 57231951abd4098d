"""Private gradients: CPU time of a clipped sum beside a plain step, vmap and Opacus."""
