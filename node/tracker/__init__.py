"""`python -m node.tracker`: introduces peers to each other and closes groups; it never sees a share.

It may be restarted at any time, because the peers announce themselves again. On disk it keeps its key, and
the electors that it named for each swarm's first model (node.tracker.named_electors).
"""
