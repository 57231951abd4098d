"""Statistics as jobs: table one, generalised linear models, survival."""
