"""Vertical learning with label privacy."""
