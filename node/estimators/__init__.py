"""Estimators in scikit-learn's sense: `fit` learns with the other members of a swarm."""
