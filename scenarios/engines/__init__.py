"""Who computes a cell: this process in blocks, real nodes, or a cluster."""
