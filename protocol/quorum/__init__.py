"""The electors that decide on the next base, and the line of sessions that leads to the current one."""
