"""Rows of one's own: files, schemas, encodings, parts."""
