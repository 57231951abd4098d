"""How fast noise is drawn."""
