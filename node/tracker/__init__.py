"""`python -m node.tracker`: introduces peers to each other and closes groups; it never sees a share.

It may be restarted at any time: the peers announce themselves again. On disk it keeps its key, and whom it
named as electors of each swarm's first model (node.named_electors).
"""
