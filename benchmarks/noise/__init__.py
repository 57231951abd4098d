"""How fast noise is drawn, and the memory it takes."""
