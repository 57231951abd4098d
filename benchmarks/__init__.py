"""What the product costs: seconds, bytes, memory, accuracy of sums. In the repository, not in the wheel."""

from node.cli.sigint import loading

loading()
