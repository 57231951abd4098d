"""How well a model does: metrics, what they are made of, and the words for them."""
