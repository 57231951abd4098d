"""A peer: it trains on its owner's data and learns with others, without a server."""
