"""The masked protocol: sums that tolerate members that fall silent, and detect members that lie."""
