"""A federation with a server: clients, rounds, attackers, what is measured."""
