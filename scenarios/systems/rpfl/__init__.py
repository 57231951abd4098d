"""Robust and private federated learning."""
