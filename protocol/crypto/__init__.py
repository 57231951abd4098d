"""Keys, sealed boxes, secret sharing, pseudorandom words and digests."""
