"""Who decides on the next base, and the line of sessions that leads to this one."""
