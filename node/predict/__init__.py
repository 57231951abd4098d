"""`python -m node.predict`: predictions with a trained model."""
