"""The CPU time of a sum of clipped gradients, beside a plain step, vmap and Opacus."""
