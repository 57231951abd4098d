"""Reporters write each round's figures where another program plots them. Each needs its own package."""
