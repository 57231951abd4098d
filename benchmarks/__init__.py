"""What the product costs: seconds, bytes, memory, accuracy of sums. In the repository, not in the wheel."""

from node.starting import loading

loading()
