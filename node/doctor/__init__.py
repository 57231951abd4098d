"""`python -m node.doctor`: examines, from this machine, the way to each peer or to a tracker."""
