"""`murmuration invite TASK ... NAME ...`: invites people to a swarm, each by a code of its own."""
