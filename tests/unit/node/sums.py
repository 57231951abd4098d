"""What a session makes of the offers of a group."""

from protocol.aggregation.additive.shares import ShareSettings


def mean_of(offers, bound):
    """Returns the mean of the words of all members, each within `bound`."""
    shares = ShareSettings("ring", bound, 100.0).for_group(len(offers))
    total = shares.empty(len(offers[0]))
    for number, offer in enumerate(offers):
        encoded, clipped = shares.encode(offer, bytes([number]) * 32)
        assert clipped == 0
        shares.add(total, 0, encoded.tobytes())
    return shares.decode(total)
