"""Measurements of the product: seconds, bytes, memory, errors of sums. The wheel does not contain them."""

from node.cli.sigint import loading

loading()
