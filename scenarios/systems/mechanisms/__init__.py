"""Every mechanism on one axis."""
