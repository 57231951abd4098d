"""What comes in: the port, every accepted connection with its bounds, and links that others open."""
