"""What a node needs of its computer, each behind one seam; and errors that tell its user one line."""
