"""A node's own rows: files, schemas, encodings, partitions."""
