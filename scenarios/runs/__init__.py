"""One run of a scenario: the request, the sweep and its progress."""
