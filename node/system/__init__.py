"""What a node needs of its computer: clocks, streams, disk and randomness, each behind one seam."""
