"""Studies of one's own: by import path, as a file without code, with grids over any parameter."""
