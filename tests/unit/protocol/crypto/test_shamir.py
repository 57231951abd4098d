"""Secrets in shares: which arguments are refused, and that threshold - 1 of them fit any secret."""

import pytest

from protocol.crypto.shamir import PRIME, combine, split, weights
from protocol.errors import LocalProtocolError

RAND = bytes(range(32))
SECRET = 2**254 - 5


def test_every_share_is_another_number_than_the_secret():
    assert len({SECRET, *split(SECRET, 3, 64, RAND)}) == 65


def test_equal_secrets_with_other_randomness_have_other_shares():
    assert not set(split(SECRET, 3, 5, RAND)) & set(split(SECRET, 3, 5, RAND[::-1]))


def test_coefficients_fill_the_field():
    """64 bytes reduced: about half of the coefficients are in the field's upper half."""
    tops = [split(0, 2, 2, number.to_bytes(32, "big"))[0] for number in range(64)]

    assert 16 < sum(top > PRIME // 2 for top in tops) < 48


@pytest.mark.parametrize(
    ("secret", "threshold", "members"), [(-1, 2, 3), (PRIME, 2, 3), (1, 0, 3), (1, 4, 3), (1, 1, 0)]
)
def test_a_split_out_of_range_is_refused(secret, threshold, members):
    with pytest.raises(LocalProtocolError, match="shares of a secret below"):
        split(secret, threshold, members, RAND)


@pytest.mark.parametrize("numbers", [[], [1, 1], [0, 2, 0], [-1, 1]])
def test_weights_are_of_different_members(numbers):
    with pytest.raises(LocalProtocolError, match="no weights for members"):
        weights(numbers)


@pytest.mark.parametrize("shares", [[1], [1, 2, 3], []])
def test_each_share_has_a_weight(shares):
    with pytest.raises(LocalProtocolError, match="shares for 2 weights"):
        combine(shares, weights([0, 1]))


def test_a_group_of_64_opens_all_its_secrets():
    secrets = [split(SECRET - number, 52, 64, RAND) for number in range(64)]
    some = list(range(63, 11, -1))
    shared = weights(some)

    opened = [combine([shares[number] for number in some], shared) for shares in secrets]
    assert opened == [SECRET - number for number in range(64)]
