"""How RPFL allocates a budget to clients."""
