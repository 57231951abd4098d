"""A relay's side of the network: the carriers of members, and the rooms in which joiners meet an inviter.

protocol.relay decides; this folder gives it websockets, on the listener of a tracker or of a node.
"""
