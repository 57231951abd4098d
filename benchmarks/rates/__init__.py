"""The origin of the defaults of shared private steps: runs on public data, in one process."""
