"""How good the additive model is on public tables, with privacy and without, beside other models."""
